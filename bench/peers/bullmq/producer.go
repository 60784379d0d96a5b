package bullmq

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/headway-go/headway/bench/contest"
)

// bulk is how many jobs are added in one call.
const bulk = 1000

// ErrRefused means that BullMQ refused jobs. The message has the reason.
var ErrRefused = errors.New("bullmq: the queue refused the jobs")

// producer is a Node process that adds jobs.
type producer struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers *bufio.Reader
}

// Producer implements contest.Contestant.
func (c contestant) Producer(_ context.Context, env contest.Env, _ *contest.Probe) (contest.Producer, error) {
	in, err := c.installed()
	if err != nil {
		return nil, err
	}
	cmd, err := in.command(env, producerProgram)
	if err != nil {
		return nil, err
	}
	cmd.Stderr = os.Stderr
	to, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("bullmq: start the producer: %w", err)
	}
	from, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("bullmq: start the producer: %w", err)
	}
	if err = cmd.Start(); err != nil {
		return nil, fmt.Errorf("bullmq: start the producer: %w", err)
	}
	p := &producer{cmd: cmd, in: to, answers: bufio.NewReader(from)}
	if err = p.add(nil); err != nil { // the start of Node is not measured
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// Enqueue implements contest.Producer: Queue.addBulk, as BullMQ's guide advises for many jobs.
func (p *producer) Enqueue(_ context.Context, tasks []contest.Task) error {
	for some := range slices.Chunk(tasks, bulk) {
		if err := p.add(some); err != nil {
			return err
		}
	}
	return nil
}

// add sends the jobs to the process, and waits for its answer.
func (p *producer) add(tasks []contest.Task) error {
	if tasks == nil {
		tasks = []contest.Task{}
	}
	if err := json.NewEncoder(p.in).Encode(tasks); err != nil {
		return fmt.Errorf("bullmq: send %d jobs to the producer: %w", len(tasks), err)
	}
	answer, err := p.answers.ReadString('\n')
	if err != nil {
		return fmt.Errorf("bullmq: the producer's answer: %w", err)
	}
	if answer = strings.TrimSpace(answer); answer != "ok" {
		return fmt.Errorf("%w: %s", ErrRefused, answer)
	}
	return nil
}

// Close implements contest.Producer.
func (p *producer) Close() error {
	if err := p.in.Close(); err != nil {
		return fmt.Errorf("bullmq: end the producer: %w", err)
	}
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("bullmq: end the producer: %w", err)
	}
	return nil
}
