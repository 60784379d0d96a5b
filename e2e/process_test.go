package e2e_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// tailLines is how many lines of a process's log a failed test shows.
const tailLines = 12

// process is a program that a test started. It is killed when the test ends; a failed test shows the end of its log.
// Only the test's own goroutine may call its methods.
type process struct {
	name   string
	cmd    *exec.Cmd
	logs   string // the file of its standard error
	out    *output
	exited chan struct{}
}

// spawn starts a program, named as in programs or by its file. Its environment is env alone.
func spawn(t *testing.T, name, program string, env []string, args ...string) *process {
	t.Helper()
	logs, err := os.Create(filepath.Join(logFolder(t), name+".log"))
	if err != nil {
		t.Fatalf("create the log of %s: %v", name, err)
	}
	defer func() { _ = logs.Close() }() // the process has its own copy
	p := &process{
		name: name, logs: logs.Name(), out: newOutput(), exited: make(chan struct{}),
		// signals end it
		cmd: exec.CommandContext(context.WithoutCancel(t.Context()), cmp.Or(programs[program], program), args...),
	}
	p.cmd.Env, p.cmd.Stderr, p.cmd.Stdout = asProgram(program, env), logs, p.out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // without the terminal of a person: SIGHUP reloads
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // cmd.ProcessState has the result
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("the last of %s (%v):\n%s", name, p.cmd.ProcessState, lastLines(p.log(t)))
		}
	})
	return p
}

// asProgram returns the environment in which this binary is the program.
func asProgram(program string, env []string) []string {
	return append(slices.Clone(env), programVariable+"="+program)
}

// logFolder returns the folder for the logs of one test: below HEADWAY_E2E_LOGS, or a temporary one.
func logFolder(t *testing.T) string {
	t.Helper()
	kept := os.Getenv("HEADWAY_E2E_LOGS")
	if kept == "" {
		return t.TempDir()
	}
	folder := filepath.Join(kept, t.Name())
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	return folder
}

// kill ends the process like kill -9, and returns when it has ended.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.exited
}

// terminate sends SIGTERM to the process.
func (p *process) terminate(t *testing.T) {
	t.Helper()
	p.signal(t, syscall.SIGTERM)
}

func (p *process) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signal %s: %v", p.name, err)
	}
}

// exit waits for the end of the process and returns its exit code.
func (p *process) exit(t *testing.T) int {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.exited:
		return p.cmd.ProcessState.ExitCode()
	case <-timer.C:
		t.Fatalf("%s has not ended within %v", p.name, patience)
		return -1
	}
}

// log returns the standard error of the process so far.
func (p *process) log(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(p.logs)
	if err != nil {
		t.Errorf("read the log of %s: %v", p.name, err)
	}
	return string(text)
}

// lastLines returns the last lines, without asynq's debug lines, which would fill them.
func lastLines(text string) string {
	lines := slices.DeleteFunc(strings.Split(strings.TrimRight(text, "\n"), "\n"), func(line string) bool {
		return strings.Contains(line, `"DEBUG","msg":"asynq"`)
	})
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}

// result is the result of a command.
type result struct {
	code     int
	out, err string
}

// command runs a program to its end.
func command(t *testing.T, program string, env []string, stdin string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out, errs bytes.Buffer
	c := exec.CommandContext(ctx, programs[program], args...)
	c.Env, c.Stdin, c.Stdout, c.Stderr = asProgram(program, env), strings.NewReader(stdin), &out, &errs
	if err := c.Run(); err != nil && c.ProcessState == nil {
		t.Fatalf("run %s: %v", program, err)
	}
	return result{code: c.ProcessState.ExitCode(), out: out.String(), err: errs.String()}
}
