package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/headway-go/headway/internal/cli"
	"github.com/headway-go/headway/internal/config"
	"github.com/headway-go/headway/tasks/llm"
	"github.com/headway-go/headway/tasks/web"
)

// clients are those that the tasks' calls go through: the provider that the environment names, and the hosts that the file lists.
func clients(c config.Config, getenv func(string) string) (*llm.Client, *web.Client, error) {
	key := getenv("OPENAI_API_KEY")
	if key == "" {
		return nil, nil, &cli.UsageError{Err: errors.New("OPENAI_API_KEY is not set: the provider would refuse every request; `export OPENAI_API_KEY=...` and start again")}
	}
	for _, name := range c.HTTP.Secrets {
		if getenv(name) == "" {
			return nil, nil, &cli.UsageError{Err: fmt.Errorf("%s is not set: http.secrets lists it for tasks; `export %s=...` and start again, or take it off the list", name, name)}
		}
	}
	client, err := llm.NewClient(llm.Config{BaseURL: getenv("OPENAI_BASE_URL"), APIKey: key})
	if err != nil {
		return nil, nil, &cli.UsageError{Err: err}
	}
	requests, err := web.NewClient(web.Config{AllowHosts: c.HTTP.AllowHosts, Secrets: func(name string) (string, bool) {
		return getenv(name), slices.Contains(c.HTTP.Secrets, name)
	}})
	if err != nil {
		return nil, nil, &cli.UsageError{Err: err}
	}
	return client, requests, nil
}
