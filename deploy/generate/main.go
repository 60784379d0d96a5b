// Command generate writes what is derived from the list of metrics: the page of docs, the Grafana dashboard and the
// alert rules of Prometheus.
//
//go:generate go run .
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// root is the top of the repository, seen from this folder.
const root = "../.."

// files are the generated files, by their paths from the root.
func files() map[string]func() ([]byte, error) {
	return map[string]func() ([]byte, error){
		"docs/metrics.md":                        page,
		"deploy/prometheus/rules.yml":            rules,
		"deploy/grafana/dashboards/headway.json": dashboard,
	}
}

func main() {
	for name, content := range files() {
		text, err := content()
		if err == nil {
			err = os.WriteFile(filepath.Join(root, name), text, 0o644) //nolint:gosec // public files of the repository
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "generate %s: %v\n", name, err)
			os.Exit(1)
		}
	}
}
