package kubernetes_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headway-go/headway/internal/setup/config"
	"github.com/headway-go/headway/internal/state/metric"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// rendered is what kustomize makes of a folder.
type rendered struct {
	worker     apps.Deployment
	page       apps.Deployment
	gateway    apps.Deployment
	services   map[string]*core.Service // by name, as the budgets
	config     core.ConfigMap
	disruption map[string]*policy.PodDisruptionBudget
	autoscaler *autoscaling.HorizontalPodAutoscaler
}

// kubernetes has the folders of the manifests.
const kubernetes = "../../kubernetes/"

// render renders a folder of deploy/kubernetes. A field that the API does not know is a fault.
func render(t *testing.T, folder string) (r rendered) {
	t.Helper()
	return renderAt(t, kubernetes+folder)
}

// renderAt renders a folder.
func renderAt(t *testing.T, folder string) (r rendered) {
	t.Helper()
	all, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		t.Fatal(err)
	}
	r.services, r.disruption = map[string]*core.Service{}, map[string]*policy.PodDisruptionBudget{}
	for _, one := range all.Resources() {
		var into any
		switch one.GetKind() {
		case "Deployment":
			switch into = &r.worker; one.GetName() {
			case "headway-page":
				into = &r.page
			case "headway-gateway":
				into = &r.gateway
			}
		case "Service":
			r.services[one.GetName()] = &core.Service{}
			into = r.services[one.GetName()]
		case "ConfigMap":
			into = &r.config
		case "PodDisruptionBudget":
			r.disruption[one.GetName()] = &policy.PodDisruptionBudget{}
			into = r.disruption[one.GetName()]
		case "HorizontalPodAutoscaler":
			r.autoscaler = &autoscaling.HorizontalPodAutoscaler{}
			into = r.autoscaler
		default:
			t.Fatalf("%s %s: no test knows this kind", one.GetKind(), one.GetName())
		}
		if err := yaml.UnmarshalStrict([]byte(one.MustYaml()), into); err != nil {
			t.Errorf("%s %s: %v", one.GetKind(), one.GetName(), err)
		}
	}
	return r
}

func TestBase(t *testing.T) {
	t.Parallel()
	r := render(t, "base")
	pod := r.worker.Spec.Template
	for name, selector := range map[string]*meta.LabelSelector{
		"deployment": r.worker.Spec.Selector, "disruption budget": r.disruption["headway-worker"].Spec.Selector,
		"spread": pod.Spec.TopologySpreadConstraints[0].LabelSelector,
	} {
		if s, err := meta.LabelSelectorAsSelector(selector); err != nil || s.Empty() ||
			!s.Matches(labels.Set(pod.Labels)) {
			t.Errorf("the selector of the %s, %v, does not match %v: %v", name, s, pod.Labels, err)
		}
	}
	if r.disruption["headway-worker"].Spec.MaxUnavailable.IntValue() != 1 {
		t.Errorf("a drained node may take %v workers at once", r.disruption["headway-worker"].Spec.MaxUnavailable)
	}
	if volume := pod.Spec.Volumes[0].ConfigMap.Name; volume != r.config.Name || !strings.HasPrefix(volume, "headway-") {
		t.Errorf("the pod reads ConfigMap %q, and %q is made: a changed file would start no new pods", volume, r.config.Name)
	}
	if r.autoscaler != nil {
		t.Error("the base scales by itself")
	}
}

func TestWorkerContainer(t *testing.T) {
	t.Parallel()
	r := render(t, "base")
	pod := r.worker.Spec.Template.Spec
	c := pod.Containers[0]
	settings := load(t, r.config.Data["headway.yaml"])
	if stop := settings.ShutdownTimeout.Seconds(); float64(*pod.TerminationGracePeriodSeconds) <= stop {
		t.Errorf("pods are killed after %d s, and workers stop within %v s", *pod.TerminationGracePeriodSeconds, stop)
	}
	path := c.VolumeMounts[0].MountPath + "/headway.yaml"
	if want := []string{"worker", "--config", path, "--metrics", "0.0.0.0:9464"}; !slices.Equal(c.Args[:len(want)], want) {
		t.Errorf("arguments %q, wanted %q first", c.Args, want)
	}
	if c.Ports[0].Name != "metrics" || c.Ports[0].ContainerPort != 9464 {
		t.Errorf("ports %v", c.Ports)
	}
	for path, probe := range map[string]*core.Probe{"/healthz": c.LivenessProbe, "/readyz": c.ReadinessProbe} {
		if probe.HTTPGet.Path != path || probe.HTTPGet.Port.StrVal != "metrics" {
			t.Errorf("the probe of %s is %+v", path, probe.HTTPGet)
		}
	}
	s := c.SecurityContext
	if !*pod.SecurityContext.RunAsNonRoot || !*s.ReadOnlyRootFilesystem || *s.AllowPrivilegeEscalation ||
		!slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}) {
		t.Errorf("the worker may do more than it needs: %+v, %+v", pod.SecurityContext, s)
	}
}

// Two gateways beside the workers, with the same settings. Files of callers are where results are, so no pod has more
// than its settings to mount.
func TestGateways(t *testing.T) {
	t.Parallel()
	r := render(t, "fleet")
	pod, service := r.gateway.Spec.Template, r.services["headway-gateway"]
	for name, selector := range map[string]labels.Set{
		"deployment": r.gateway.Spec.Selector.MatchLabels, "service": service.Spec.Selector,
		"disruption budget": r.disruption["headway-gateway"].Spec.Selector.MatchLabels,
	} {
		if s := selector.AsSelector(); s.Empty() || !s.Matches(labels.Set(pod.Labels)) ||
			s.Matches(labels.Set(r.worker.Spec.Template.Labels)) {
			t.Errorf("the selector of the %s, %v, is not that of gateways alone", name, s)
		}
	}
	c, volumes := pod.Spec.Containers[0], pod.Spec.Volumes
	if len(volumes) != 1 || volumes[0].ConfigMap.Name != r.config.Name || *r.gateway.Spec.Replicas < 2 ||
		strings.Contains(strings.Join(c.Args, " "), "--files") {
		t.Errorf("%+v with %+v", c, volumes)
	}
	port, ready := service.Spec.Ports[0].TargetPort.StrVal, c.ReadinessProbe.HTTPGet.Path
	if port != c.Ports[0].Name || ready != "/readyz" {
		t.Errorf("the service calls %q of %+v when %s is good", port, c.Ports, ready)
	}
}

func TestAutoscaler(t *testing.T) {
	t.Parallel()
	r := render(t, "fleet")
	if r.autoscaler == nil || r.worker.Spec.Replicas != nil {
		t.Fatalf("autoscaler %v beside %v fixed replicas", r.autoscaler, r.worker.Spec.Replicas)
	}
	to := r.autoscaler.Spec.ScaleTargetRef
	if to.Kind != "Deployment" || to.Name != r.worker.Name || to.APIVersion != "apps/v1" {
		t.Errorf("it scales %+v", to)
	}
	for _, m := range r.autoscaler.Spec.Metrics {
		if err := known(m.External.Metric); err != nil {
			t.Error(err)
		}
	}
}

// The component adds the page to the workers of the base: it reads their file, and the service finds its pods alone.
func TestPage(t *testing.T) {
	t.Parallel()
	r := render(t, "fleet")
	service := r.services["headway-page"]
	pod, worker := r.page.Spec.Template, r.worker.Spec.Template
	for name, selector := range map[string]map[string]string{
		"service": service.Spec.Selector, "deployment": r.page.Spec.Selector.MatchLabels,
	} {
		s := labels.SelectorFromSet(selector)
		if s.Empty() || !s.Matches(labels.Set(pod.Labels)) || s.Matches(labels.Set(worker.Labels)) {
			t.Errorf("the selector of the %s, %v, is for %v alone", name, s, pod.Labels)
		}
	}
	c := pod.Spec.Containers[0]
	if port := c.Ports[0]; service.Spec.Ports[0].TargetPort.StrVal != port.Name ||
		c.Args[len(c.Args)-1] != fmt.Sprintf("0.0.0.0:%d", port.ContainerPort) {
		t.Errorf("the page listens at %q, has the port %v, and the service sends to %v", c.Args, port, service.Spec.Ports)
	}
	if config := pod.Spec.Volumes[0].ConfigMap.Name; config != r.config.Name ||
		config != worker.Spec.Volumes[0].ConfigMap.Name ||
		!slices.Contains(c.Args, c.VolumeMounts[0].MountPath+"/headway.yaml") {
		t.Errorf("the page reads %s, the workers %s", config, worker.Spec.Volumes[0].ConfigMap.Name)
	}
	if s := c.SecurityContext; !*pod.Spec.SecurityContext.RunAsNonRoot || !*s.ReadOnlyRootFilesystem ||
		*s.AllowPrivilegeEscalation || c.Image != worker.Spec.Containers[0].Image {
		t.Errorf("the page may do more than it needs: %+v", c)
	}
}

// overlay renders a folder of a user, whose text has the path of the manifests for each %s.
func overlay(t *testing.T, text string) rendered {
	t.Helper()
	folder := t.TempDir()
	manifests, err := filepath.Abs(kubernetes)
	if err == nil {
		manifests, err = filepath.Rel(folder, manifests)
	}
	if err == nil {
		text = strings.ReplaceAll(text, "%s", filepath.ToSlash(manifests))
		err = os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(text), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return renderAt(t, folder)
}

// The name and the tag of the image that a user gives count for all pods.
func TestOneImage(t *testing.T) {
	t.Parallel()
	r := overlay(t, "resources: [%s/fleet]\n"+
		"images: [{name: headway, newName: registry.example.com/headway, newTag: v1}]\n")
	for name, d := range map[string]apps.Deployment{"worker": r.worker, "page": r.page, "gateway": r.gateway} {
		if image := d.Spec.Template.Spec.Containers[0].Image; image != "registry.example.com/headway:v1" {
			t.Errorf("the %s runs %q", name, image)
		}
	}
}

// Each component works without the others.
func TestEachComponent(t *testing.T) {
	t.Parallel()
	for _, component := range []string{"gateway", "page", "autoscale"} {
		r := overlay(t, "resources: [%s/base]\ncomponents: [%s/"+component+"]\n")
		got := map[string]bool{"gateway": r.gateway.Name != "", "page": r.page.Name != "", "autoscale": r.autoscaler != nil}
		for name, there := range got {
			if there != (name == component) || r.worker.Name == "" {
				t.Errorf("with %s: %v", component, got)
			}
		}
	}
}

// known returns an error unless Headway exports the metric with such labels.
func known(wanted autoscaling.MetricIdentifier) error {
	i := slices.IndexFunc(metric.List(), func(m metric.Metric) bool { return m.Name == wanted.Name })
	if i < 0 {
		return fmt.Errorf("no metric %q", wanted.Name)
	}
	for label := range wanted.Selector.MatchLabels {
		if m := metric.List()[i]; !slices.Contains(m.Labels, label) {
			return fmt.Errorf("%s has no label %q, but %q", m.Name, label, m.Labels)
		}
	}
	return nil
}

func load(t *testing.T, text string) config.Config {
	t.Helper()
	file := t.TempDir() + "/headway.yaml"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	settings, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	return settings
}
