package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// The results of a step.
const (
	green  = "green"
	red    = "red"
	notRun = "not run" // this machine can't
)

// cannotRun is the exit code of a step that this machine can't run.
const cannotRun = 77

// row is what a step came to.
type row struct {
	Name    string  `json:"name"`
	Shows   string  `json:"shows"`
	Result  string  `json:"result"`
	Seconds float64 `json:"seconds"`
	// CPUSeconds are the processor time of the command and its children, without services that ran before it.
	CPUSeconds float64 `json:"cpu_seconds"`
	Command    string  `json:"command"`
	// Why are lines of the output that say why the row is not green.
	Why []string `json:"why,omitempty"`
}

// run runs the command, with its output in the file.
func (s step) run(ctx context.Context, path string) (row, error) {
	r := row{Name: s.Name, Shows: s.Shows, Command: s.Command}
	output, err := os.Create(path)
	if err != nil {
		return r, err
	}
	defer output.Close()
	ctx, cancel := context.WithTimeout(ctx, s.Most)
	defer cancel()
	began := time.Now()
	c := exec.CommandContext(ctx, "bash", "-c", s.Command)
	c.Stdout, c.Stderr = output, output
	// The step ends with all that it started.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGTERM) }
	c.WaitDelay = time.Minute
	err = c.Run()
	r.Seconds = time.Since(began).Seconds()
	if c.ProcessState != nil {
		r.CPUSeconds = (c.ProcessState.UserTime() + c.ProcessState.SystemTime()).Seconds()
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
		r.Result = green
		return r, nil
	case errors.As(err, &exit) && exit.ExitCode() == cannotRun:
		r.Result = notRun
	default:
		r.Result = red
	}
	said, err := os.ReadFile(path)
	r.Why = why(string(said))
	if ctx.Err() != nil {
		r.Why = append(r.Why, "ended after "+s.Most.String())
	}
	return r, err
}

// telling are lines of go test, and of our scripts, that say why a run failed.
var telling = regexp.MustCompile(`^\s*--- FAIL|^FAIL|^panic:|_test\.go:\d+: |^WARNING: DATA RACE|^[a-z]+: NOT `)

// why returns the last telling lines of an output, or its last lines.
func why(said string) []string {
	const most = 12
	lines := strings.Split(strings.TrimSpace(said), "\n")
	var found []string
	for _, line := range lines {
		if telling.MatchString(line) {
			found = append(found, line)
		}
	}
	if found == nil {
		found = lines
	}
	return found[max(0, len(found)-most):]
}
