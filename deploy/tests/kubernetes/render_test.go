package kubernetes_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/headway-go/headway/internal/config"
	"github.com/headway-go/headway/internal/metric"
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
	config     core.ConfigMap
	disruption policy.PodDisruptionBudget
	autoscaler *autoscaling.HorizontalPodAutoscaler
}

// render renders a folder of deploy/kubernetes. A field that the API does not know is a fault.
func render(t *testing.T, folder string) (r rendered) {
	t.Helper()
	all, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), "../../kubernetes/"+folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all.Resources() {
		var into any
		switch one.GetKind() {
		case "Deployment":
			into = &r.worker
		case "ConfigMap":
			into = &r.config
		case "PodDisruptionBudget":
			into = &r.disruption
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
		"deployment": r.worker.Spec.Selector, "disruption budget": r.disruption.Spec.Selector,
		"spread": pod.Spec.TopologySpreadConstraints[0].LabelSelector,
	} {
		if s, err := meta.LabelSelectorAsSelector(selector); err != nil || s.Empty() ||
			!s.Matches(labels.Set(pod.Labels)) {
			t.Errorf("the selector of the %s, %v, does not match %v: %v", name, s, pod.Labels, err)
		}
	}
	if r.disruption.Spec.MaxUnavailable.IntValue() != 1 {
		t.Errorf("a drained node may take %v workers at once", r.disruption.Spec.MaxUnavailable)
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

func TestAutoscaler(t *testing.T) {
	t.Parallel()
	r := render(t, "autoscale")
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
