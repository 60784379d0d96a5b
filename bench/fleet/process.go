package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/headway-go/headway/bench/contest"
)

// stopGrace is how long a worker may take to stop.
const stopGrace = 15 * time.Second

// Usage is the CPU time and memory of processes.
type Usage struct {
	CPU time.Duration
	// Peak is the largest resident memory of one process, in bytes.
	Peak int64
}

// process is one worker.
type process struct {
	cmd   *exec.Cmd
	read  chan error
	ended chan struct{}
	peak  int64
}

// startWorker starts the contestant's own command, or this program as a worker.
func startWorker(
	ctx context.Context, c contest.Contestant, env contest.Env, t *tally, stderr io.Writer,
) (*process, error) {
	cmd, err := command(ctx, c, env)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(env)
	if err != nil {
		return nil, fmt.Errorf("bench: environment of a worker: %w", err)
	}
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, contest.EnvVariable+"="+string(text))
	cmd.Stderr = stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("bench: start a worker: %w", err)
	}
	if err = cmd.Start(); err != nil {
		return nil, fmt.Errorf("bench: start a worker of %s: %w", c.Name(), err)
	}
	p := &process{cmd: cmd, read: make(chan error, 1), ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		p.read <- t.read(out)
		_ = cmd.Wait() // cmd.ProcessState has the result
	}()
	return p, nil
}

func command(ctx context.Context, c contest.Contestant, env contest.Env) (*exec.Cmd, error) {
	if own, ok := c.(contest.Commander); ok {
		return own.Command(env)
	}
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("bench: path of this program: %w", err)
	}
	return exec.CommandContext(context.WithoutCancel(ctx), program, "worker"), nil //nolint:gosec // this program
}

// kill ends the process like kill -9.
func (p *process) kill() Usage {
	p.note()
	_ = p.cmd.Process.Kill()
	<-p.ended
	return p.usage()
}

// stop sends SIGTERM, and kills the process if it does not end in time.
func (p *process) stop() (Usage, error) {
	p.note()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.NewTimer(stopGrace)
	defer timer.Stop()
	var err error
	select {
	case <-p.ended:
		if code := p.cmd.ProcessState.ExitCode(); code > 0 {
			err = fmt.Errorf("bench: a worker ended with exit code %d; see its output above", code)
		}
	case <-timer.C:
		p.kill()
	}
	return p.usage(), errors.Join(err, <-p.read)
}

// dead returns whether the process has ended by itself.
func (p *process) dead() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

func (p *process) usage() Usage {
	return Usage{CPU: p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime(), Peak: p.peak}
}

// note stores the peak of memory while the process runs. The kernel's figure after its end is useless: it is at least
// the memory of the runner at the start of the process.
func (p *process) note() {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return // the process has ended, or the system is not Linux
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	var kib int64
	if _, err = fmt.Sscan(rest, &kib); err == nil {
		p.peak = max(p.peak, kib*1024)
	}
}

// plus returns the usage of two processes together.
func (u Usage) plus(other Usage) Usage {
	return Usage{CPU: u.CPU + other.CPU, Peak: max(u.Peak, other.Peak)}
}

// ownCPU returns the CPU time of this process so far, or zero if unknown.
func ownCPU() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// cpuNow returns the CPU time of the process so far, in steps of 10 ms, or zero if unknown.
func (p *process) cpuNow() time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	var user, system int64
	if _, err = fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		return 0
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}
