package testenv_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// root is the path of the repository from this package.
const root = "../../.."

// composeFile is the part of docker-compose.yml that the tests check.
type composeFile struct {
	Services map[string]composeService `yaml:"services"`
	Volumes  map[string]any            `yaml:"volumes"`
}

type composeService struct {
	Image       string            `yaml:"image"`
	MemLimit    string            `yaml:"mem_limit"`
	Build       string            `yaml:"build"`
	Command     []string          `yaml:"command"`
	Ports       []string          `yaml:"ports"`
	Volumes     []string          `yaml:"volumes"`
	Environment map[string]string `yaml:"environment"`
	Profiles    []string          `yaml:"profiles"`
	DependsOn   dependencies      `yaml:"depends_on"`
	Healthcheck *struct {
		Test []string `yaml:"test"`
	} `yaml:"healthcheck"`
	Deploy struct {
		Replicas int `yaml:"replicas"`
	} `yaml:"deploy"`
}

// dependencies are the dependencies of a service, with their conditions. A plain list has no conditions.
type dependencies map[string]struct {
	Condition string `yaml:"condition"`
}

func (d *dependencies) UnmarshalYAML(n *yaml.Node) error {
	var names []string
	if n.Decode(&names) == nil {
		*d = dependencies{}
		for _, name := range names {
			(*d)[name] = struct {
				Condition string `yaml:"condition"`
			}{}
		}
		return nil
	}
	type plain dependencies
	return n.Decode((*plain)(d))
}

func TestComposeHasTheServicesItPromises(t *testing.T) {
	t.Parallel()
	c := readCompose(t)
	for _, name := range []string{"redis", "mongo", "worker"} {
		service, ok := c.Services[name]
		if !ok {
			t.Fatalf("service %s is missing", name)
		}
		if service.Healthcheck == nil || len(service.Healthcheck.Test) < 2 {
			t.Errorf("service %s has no health check", name)
		}
		if service.Image == "" {
			t.Errorf("service %s has no image", name)
		}
	}
	if w := c.Services["worker"]; w.MemLimit == "" || w.Environment["GOMEMLIMIT"] == "" {
		t.Error("a worker that answers fill has no bound of memory")
	}
	if !slices.Contains(c.Services["redis"].Command, "--appendonly") {
		t.Error("redis keeps no append-only file")
	}
	if !slices.Contains(c.Services["mongo"].Command, "--replSet") ||
		!strings.Contains(strings.Join(c.Services["mongo"].Healthcheck.Test, " "), "rs.initiate") {
		t.Error("mongo is no replica set, or its health check does not initiate it")
	}
}

func TestComposeBindsEveryPortToLoopback(t *testing.T) {
	t.Parallel()
	for name, service := range readCompose(t).Services {
		for _, port := range service.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("service %s: port %q is open to other machines", name, port)
			}
		}
	}
}

// The files of the gateway are in MongoDB: it needs no volume.
func TestComposeGateway(t *testing.T) {
	t.Parallel()
	gateway := readCompose(t).Services["gateway"]
	if gateway.Environment["MONGODB_URI"] == "" || len(gateway.Volumes) != 1 ||
		strings.Contains(strings.Join(gateway.Command, " "), "--files") {
		t.Errorf("command %q, volumes %q", gateway.Command, gateway.Volumes)
	}
}

func TestComposeWorkers(t *testing.T) {
	t.Parallel()
	c := readCompose(t)
	worker := c.Services["worker"]
	if worker.Build != "." || worker.Deploy.Replicas != 2 {
		t.Errorf("wanted two workers built here, got %d of build %q", worker.Deploy.Replicas, worker.Build)
	}
	for _, needed := range []string{"redis", "mongo"} {
		if got := worker.DependsOn[needed].Condition; got != "service_healthy" {
			t.Errorf("workers wait for %s to be %q, wanted service_healthy", needed, got)
		}
	}
	const config = "/etc/headway/headway.yaml"
	if want := []string{"worker", "--config", config, "--metrics", "0.0.0.0:9464"}; !slices.Equal(worker.Command, want) {
		t.Errorf("command %q, wanted %q", worker.Command, want)
	}
	want := []string{"CMD", "/headway", "check", "--skip-provider", "--config", config}
	if !slices.Equal(worker.Healthcheck.Test, want) {
		t.Errorf("health check %q, wanted %q", worker.Healthcheck.Test, want)
	}
	if !slices.Contains(worker.Volumes, "./headway.yaml:"+config+":ro") {
		t.Errorf("headway.yaml is not mounted: %q", worker.Volumes)
	}
	if _, err := os.Stat(filepath.Join(root, "headway.yaml")); err != nil {
		t.Errorf("the file that is mounted: %v", err)
	}
}

func TestComposeHoldsNoSecrets(t *testing.T) {
	t.Parallel()
	c := readCompose(t)
	for name, service := range c.Services {
		for key, value := range service.Environment {
			if strings.HasPrefix(key, "OPENAI_") && value != "" {
				t.Errorf("service %s sets %s: it must come from the user's environment", name, key)
			}
		}
	}
	for _, key := range []string{"OPENAI_API_KEY", "OPENAI_BASE_URL"} {
		if _, ok := c.Services["worker"].Environment[key]; !ok {
			t.Errorf("the worker is not given %s", key)
		}
	}
	secret := regexp.MustCompile(`sk-[A-Za-z0-9]{8}|://[^/\s]+:[^/\s]+@|(?i)password\s*[:=]\s*\S`)
	if found := secret.FindString(read(t, "docker-compose.yml")); found != "" {
		t.Errorf("docker-compose.yml seems to contain a secret: %q", found)
	}
}

func TestComposeDeclaresItsVolumes(t *testing.T) {
	t.Parallel()
	c := readCompose(t)
	for name, service := range c.Services {
		for _, volume := range service.Volumes {
			source, _, _ := strings.Cut(volume, ":")
			if strings.HasPrefix(source, ".") {
				continue // skips a path
			}
			if _, ok := c.Volumes[source]; !ok {
				t.Errorf("service %s uses volume %s, which is not declared", name, source)
			}
		}
	}
}

// The profile observe has Prometheus and Grafana, and each file and folder that they mount is there.
func TestComposeObserves(t *testing.T) {
	t.Parallel()
	c := readCompose(t)
	for _, name := range []string{"prometheus", "grafana"} {
		service := c.Services[name]
		if !slices.Equal(service.Profiles, []string{"observe"}) || service.Image == "" || len(service.Ports) != 1 {
			t.Errorf("service %s: %+v", name, service)
		}
		mounted := 0
		for _, volume := range service.Volumes {
			source, _, _ := strings.Cut(volume, ":")
			if !strings.HasPrefix(source, "./") {
				continue
			}
			mounted++
			if _, err := os.Stat(filepath.Join(root, source)); err != nil {
				t.Errorf("service %s: %v", name, err)
			}
		}
		if mounted != 2 {
			t.Errorf("service %s mounts %d files or folders of the repository", name, mounted)
		}
	}
	var scrape struct {
		Rules   []string `yaml:"rule_files"`
		Configs []struct {
			DNS []struct {
				Names []string `yaml:"names"`
				Port  int      `yaml:"port"`
			} `yaml:"dns_sd_configs"`
		} `yaml:"scrape_configs"`
	}
	if err := yaml.Unmarshal([]byte(read(t, "deploy/prometheus/prometheus.yml")), &scrape); err != nil {
		t.Fatal(err)
	}
	mounts := strings.Join(c.Services["prometheus"].Volumes, " ")
	if len(scrape.Rules) != 1 || !strings.Contains(mounts, "rules.yml:"+scrape.Rules[0]+":ro") {
		t.Errorf("rules %q are not mounted: %s", scrape.Rules, mounts)
	}
	dns := scrape.Configs[0].DNS[0]
	if want := []string{"worker", "gateway"}; !slices.Equal(dns.Names, want) || dns.Port != 9464 {
		t.Errorf("scrapes %+v, wanted %q", dns, want)
	}
	for _, name := range dns.Names {
		if command := c.Services[name].Command; !strings.HasSuffix(command[len(command)-1], ":9464") {
			t.Errorf("service %s listens at %q", name, command)
		}
	}
	for _, name := range []string{"datasources/prometheus.yml", "dashboards/headway.yml"} {
		var provisioned map[string]any
		if err := yaml.Unmarshal([]byte(read(t, "deploy/grafana/provisioning/"+name)),
			&provisioned); err != nil || provisioned["apiVersion"] == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDockerfileMakesASmallImageWithoutRoot(t *testing.T) {
	t.Parallel()
	dockerfile := read(t, "Dockerfile")
	for _, wanted := range []string{
		"CGO_ENABLED=0", "./cmd/headway", "\nFROM scratch\n", "\nUSER 65532:65532\n",
		`ENTRYPOINT ["/headway"]`, "--chown=65532:65532 /files /var/lib\n",
	} {
		if !strings.Contains(dockerfile, wanted) {
			t.Errorf("Dockerfile lacks %q", strings.TrimSpace(wanted))
		}
	}
}

func readCompose(t *testing.T) composeFile {
	t.Helper()
	var c composeFile
	if err := yaml.Unmarshal([]byte(read(t, "docker-compose.yml")), &c); err != nil {
		t.Fatalf("parse docker-compose.yml: %v", err)
	}
	return c
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	return string(b)
}
