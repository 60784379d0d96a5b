package embedded

import (
	"container/heap"
	"strconv"
	"time"

	"github.com/alicebob/miniredis/v2/server"
)

// expiry is when keys expire, in milliseconds since 1970 as in Redis. miniredis keeps how long a key has to live, and
// its clock stands still: at base. So a time to live that it keeps counts from base on. The queue has a time for each
// key at which the key may have expired; what miniredis keeps decides.
type expiry struct {
	base, now int64
	queue     deadlines
	planned   map[place]int64 // the earliest time in the queue
}

type place struct {
	db  int
	key string
}

type deadline struct {
	place

	at int64
}

func newExpiry(now time.Time) expiry {
	return expiry{base: now.UnixMilli(), now: now.UnixMilli(), planned: map[place]int64{}}
}

func (e *expiry) clear() { e.queue, e.planned = nil, map[place]int64{} }

// plan has a key looked at after the time at.
func (e *expiry) plan(of place, at int64) {
	if planned, found := e.planned[of]; !found || at < planned {
		e.planned[of] = at
		heap.Push(&e.queue, deadline{place: of, at: at})
	}
}

// expire deletes the keys whose time is over. Time passes here alone, so it stands still in scripts and transactions.
func (r *Redis) expire() {
	r.expiry.now = time.Now().UnixMilli()
	r.deleteExpired()
}

func (r *Redis) deleteExpired() {
	e := &r.expiry
	for len(e.queue) > 0 && e.queue[0].at < e.now {
		next := heap.Pop(&e.queue).(deadline)
		if e.planned[next.place] == next.at {
			delete(e.planned, next.place)
		}
		left := integer(r.do(next.db, "PTTL", next.key))
		switch {
		case left < 0: // the key is gone, or stays
		case e.base+left < e.now:
			r.do(next.db, "DEL", next.key)
		default:
			e.plan(next.place, e.base+left)
		}
	}
}

// replan plans a key that a command gave the time to live of another one.
func (r *Redis) replan(db int, key string) {
	if left := integer(r.do(db, "PTTL", key)); left >= 0 {
		r.expiry.plan(place{db: db, key: key}, r.expiry.base+left)
	}
}

// readTTL answers the commands that read a time to live.
func (r *Redis) readTTL(c *server.Peer, db int, command, key string) {
	left := integer(r.do(db, "PTTL", key))
	if left < 0 { // -1: none, -2: no key
		c.WriteInt(int(left))
		return
	}
	at := r.expiry.base + left
	switch command {
	case "PTTL":
		c.WriteInt(int(max(0, at-r.expiry.now)))
	case "TTL":
		c.WriteInt(int((max(0, at-r.expiry.now) + 500) / 1000))
	case "PEXPIRETIME":
		c.WriteInt(int(at))
	default:
		c.WriteInt(int((at + 500) / 1000))
	}
}

// integer is the integer that an answer has, and zero for another answer.
func integer(answer []byte) int64 {
	if len(answer) < 4 || answer[0] != ':' {
		return 0
	}
	n, _ := strconv.ParseInt(string(answer[1:len(answer)-2]), 10, 64)
	return n
}

// deadlines is a heap: the earliest one is the first.
type deadlines []deadline

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].at < d[j].at }
func (d deadlines) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *deadlines) Push(x any)        { *d = append(*d, x.(deadline)) }
func (d *deadlines) Pop() any {
	last := len(*d) - 1
	x := (*d)[last]
	(*d)[last] = deadline{}
	*d = (*d)[:last]
	return x
}
