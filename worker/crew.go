package worker

import "sync"

// crew are goroutines that run one delivery after the other. A new goroutine begins with a small stack, and copies it several times on
// its way into a handler; one that has been there before has its stack already. The zero value keeps nobody: each delivery gets a goroutine of its own.
type crew struct {
	mu      sync.Mutex // guards what is below
	keeps   int        // how many may rest
	resting []chan func()

	leaving sync.WaitGroup // those that were told to leave
}

// keep lets so many rest until their next delivery, until dismiss.
func (c *crew) keep(most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keeps = most
}

// do runs work in one of the goroutines and returns at once.
func (c *crew) do(work func()) {
	if next := c.rested(); next != nil {
		next <- work
		return
	}
	go c.serve(work)
}

// rested is the one that has worked last, so its stack is the warmest. Nil where nobody rests.
func (c *crew) rested() chan<- func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := len(c.resting) - 1
	if last < 0 {
		return nil
	}
	next := c.resting[last]
	c.resting = c.resting[:last]
	return next
}

func (c *crew) serve(work func()) {
	next := make(chan func(), 1)
	for {
		work()
		if !c.rest(next) {
			return
		}
		var more bool
		if work, more = <-next; !more {
			c.leaving.Done()
			return
		}
	}
}

// rest says whether there is room to rest.
func (c *crew) rest(next chan func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.resting) >= c.keeps {
		return false
	}
	c.resting = append(c.resting, next)
	return true
}

// dismiss ends those that rest, and waits for that. Those that still work end when their delivery does.
func (c *crew) dismiss() {
	c.mu.Lock()
	resting := c.resting
	c.keeps, c.resting = 0, nil
	c.leaving.Add(len(resting))
	c.mu.Unlock()
	for _, next := range resting {
		close(next)
	}
	c.leaving.Wait()
}
