package gateway

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"golang.org/x/sync/errgroup"

	"github.com/headway-go/headway/internal/calls/pause"
	"github.com/headway-go/headway/internal/documents"
)

const (
	// workGroup is the group of all batches that have not ended, by when to look at them next.
	workGroup = "work"
	// workEvery is how often a gateway looks for work, workMost how many batches it works on at once.
	workEvery = time.Second
	workMost  = 4
	// lease is how long a batch is the work of one gateway, unless that renews it. A gateway that is killed leaves its
	// batches to others after that.
	lease = 30 * time.Second
	// workAgain is the pause after an error.
	workAgain = 5 * time.Second
	// sweepEvery is how often contents of files are looked through for expired ones.
	sweepEvery = time.Hour
	// workKept is how long the store keeps the work of a batch that no gateway ends.
	workKept = 3 * windowMost
)

// work is the batches that have not ended. Each is the work of one gateway at a time.
type work struct {
	in   documents.Collection
	kick chan struct{}
}

// workHead is the head of a document.
type workHead struct {
	Owner  string `bson:"owner"`
	Input  string `bson:"input"` // the ID of the file
	Leased bool   `bson:"leased,omitempty"`
}

// change changes the document of a batch by a function of its head and of when it is due.
func (w work) change(
	ctx context.Context, id string, by func(h *workHead, d *documents.Document) (write bool),
) error {
	return documents.UpdateOne(ctx, w.in, documents.Change{Key: id, Apply: func(d *documents.Document) (bool, error) {
		var h workHead
		if d.Version != "" {
			if err := bson.Unmarshal(d.Head, &h); err != nil {
				return false, errors.Join(documents.ErrMalformed, err)
			}
		}
		if !by(&h, d) {
			return false, nil
		}
		var err error
		d.Group, d.At = workGroup, d.At.UTC().Truncate(time.Millisecond)
		d.Head, err = bson.Marshal(h)
		return true, err
	}})
}

// add adds a batch, which is due at once.
func (w work) add(ctx context.Context, id string, head workHead, now time.Time) error {
	return w.change(ctx, id, func(h *workHead, d *documents.Document) bool {
		*h = head
		if d.Version != "" {
			return false
		}
		d.At, d.Expires = now, now.Add(workKept)
		return true
	})
}

// hasten makes a batch due, if no gateway has it: that one sees itself what has changed.
func (w work) hasten(ctx context.Context, id string, now time.Time) error {
	defer w.wake()
	return w.change(ctx, id, func(h *workHead, d *documents.Document) bool {
		due := d.Version != "" && !h.Leased && d.At.After(now)
		d.At = now
		return due
	})
}

// wake lets this gateway look for work at once.
func (w work) wake() {
	select {
	case w.kick <- struct{}{}:
	default: // it looks already
	}
}

// claim makes a batch the work of this gateway. Ok is false if it is not due any more.
func (w work) claim(ctx context.Context, id string, now time.Time) (head workHead, ok bool, err error) {
	err = w.change(ctx, id, func(h *workHead, d *documents.Document) bool {
		ok = d.Version != "" && !d.At.After(now)
		head, h.Leased, d.At = *h, true, now.Add(lease)
		return ok
	})
	return head, ok && err == nil, err
}

// renew renews the lease of a batch until ctx ends. If it can't, it ends the work in time.
func (w work) renew(ctx context.Context, id string, lost context.CancelFunc) {
	for pause.For(ctx, lease/3) == nil {
		renewing, end := context.WithTimeout(ctx, lease/3)
		err := w.change(renewing, id, func(h *workHead, d *documents.Document) bool {
			h.Leased, d.At = true, time.Now().Add(lease)
			return d.Version != ""
		})
		if end(); err != nil && ctx.Err() == nil {
			lost()
			return
		}
	}
}

// release says when to look at a batch next. Ended says that it is no work any more.
func (w work) release(ctx context.Context, id string, next time.Duration, ended bool) error {
	if ended {
		found, err := w.in.Get(ctx, []string{id}, false)
		if d, known := found[id]; err == nil && known {
			_, err = w.in.Delete(ctx, id, d.Version)
		}
		return err
	}
	return w.change(ctx, id, func(h *workHead, d *documents.Document) bool {
		h.Leased, d.At = false, time.Now().Add(next)
		return d.Version != ""
	})
}

// RunBatches runs the batches of the fleet until ctx ends, together with all other gateways. Without
// Config.Batching it returns at once.
func (g *Gateway) RunBatches(ctx context.Context) {
	if g.batching == nil {
		return
	}
	var group errgroup.Group
	defer func() { _ = group.Wait() }()
	group.SetLimit(workMost)
	tick := time.NewTicker(workEvery)
	defer tick.Stop()
	var swept time.Time
	for ctx.Err() == nil {
		if time.Since(swept) > sweepEvery {
			swept = time.Now()
			g.logged(ctx, "", g.batching.Files.Sweep(ctx))
		}
		due, err := g.batching.work.in.ByTime(ctx, documents.Times{
			Group: workGroup, Until: time.Now().Add(time.Millisecond), Limit: documents.Page,
		})
		g.logged(ctx, "", err)
		for _, d := range due {
			if !group.TryGo(func() error { g.runBatch(ctx, d.Key); return nil }) {
				break // the others wait, or are the work of other gateways
			}
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		case <-g.batching.work.kick:
		}
	}
}

// logged logs an error of a batch.
func (g *Gateway) logged(ctx context.Context, id string, err error) {
	if err != nil && ctx.Err() == nil {
		g.config.Logger.WarnContext(ctx, "a batch waits", slog.String("batch", id), slog.String("error", err.Error()))
	}
}

// runBatch brings one batch further, if no other gateway does.
func (g *Gateway) runBatch(ctx context.Context, id string) {
	w := g.batching.work
	head, ok, err := w.claim(ctx, id, time.Now())
	if g.logged(ctx, id, err); !ok {
		return
	}
	working, lost := context.WithCancel(ctx)
	defer lost()
	renewing, stop := context.WithCancel(ctx)
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		w.renew(renewing, id, lost)
	}()
	next, ended, err := g.advance(working, head.Owner, id)
	if ended && err == nil {
		err = g.batching.Files.Unpin(working, head.Input, id)
	}
	stop()
	<-renewed
	if err != nil {
		g.logged(ctx, id, err)
		next, ended = workAgain, false
	}
	ending, end := context.WithTimeout(context.WithoutCancel(ctx), lease/3)
	defer end()
	g.logged(ctx, id, w.release(ending, id, next, ended)) // else the lease ends
	if ended {
		g.batching.counters.Delete(id)
	}
}
