package headwaytest

import (
	"slices"
	"sync"
	"time"

	"github.com/headway-go/headway/internal/test/network"
)

// fault is something that goes wrong on the network for a time. What happens to a message is the sum of all faults that
// cover it: a process is cut off while any fault says so, also if it starts meanwhile.
type fault struct {
	worker       string // the name of the processes that it covers; empty means all
	redis, store bool   // the services whose messages it covers
	state        network.State
	more         time.Duration // added to each delay
	lose         float64       // the share of the answers that are lost
}

// faults are the ones that last.
type faults struct {
	mu        sync.Mutex // guards what is below
	last      []*fault
	processes []*process
	ended     map[string]time.Time // by fault.worker, when the last one ended
}

// begin begins a fault that lasts for a time.
func (fs *faults) begin(f fault, lasts time.Duration) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.last = append(fs.last, &f)
	fs.apply()
	time.AfterFunc(lasts, func() {
		fs.mu.Lock()
		defer fs.mu.Unlock()
		fs.last = slices.DeleteFunc(fs.last, func(each *fault) bool { return each == &f })
		fs.ended[f.worker] = time.Now()
		fs.apply()
	})
}

// end ends all faults.
func (fs *faults) end() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.last = nil
	fs.apply()
}

// cover makes a process one that faults cover.
func (fs *faults) cover(p *process) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.processes = append(fs.processes, p)
	fs.apply()
}

// changed applies the faults to processes, of which some have died.
func (fs *faults) changed() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.apply()
}

// connection is how one process reaches a service.
type connection interface {
	Set(state network.State)
	Slow(more time.Duration)
	Lose(share float64)
}

// apply makes the network of each process as the faults say. It requires that fs.mu is held.
func (fs *faults) apply() {
	for _, p := range fs.processes {
		fs.set(p, p.wire, func(f *fault) bool { return f.redis })
		fs.set(p, p.store, func(f *fault) bool { return f.store })
	}
}

// set sums the faults of one connection. It requires that fs.mu is held.
func (fs *faults) set(p *process, c connection, covers func(*fault) bool) {
	state, more, keeps := network.Up, time.Duration(0), 1.
	for _, f := range fs.last {
		if !covers(f) || f.worker != "" && f.worker != p.name {
			continue
		}
		if state != network.Refuse && f.state != network.Up { // a service that refuses does not hang
			state = f.state
		}
		more += f.more
		keeps *= 1 - f.lose
	}
	if p.dead() {
		state = network.Refuse
	}
	c.Slow(more)
	c.Lose(1 - keeps)
	c.Set(state)
}

// covered reports whether a fault covers a process, or did so at a time or later.
func (fs *faults) covered(p *process, since time.Time) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return !fs.ended[""].Before(since) || !fs.ended[p.name].Before(since) ||
		slices.ContainsFunc(fs.last, func(f *fault) bool { return f.worker == "" || f.worker == p.name })
}
