package deadtasks

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/headway-go/headway/internal/documents"
)

// Filter chooses records. The zero value chooses dead tasks and tasks whose requeue was interrupted.
type Filter struct {
	// ID is the ID of a task. Several queues may have a task with this ID.
	ID string
	// Queue, Type and Batch match exactly. Batch is the ID of a batch. Error matches a part of the last error.
	Queue, Type, Batch, Error string
	// Since and Until bound the time at which the task ended: at or after Since, and before Until.
	Since, Until time.Time
	// States are the states to look for; nil means StateDead and StateRequeueing.
	States []State
	// AnyState chooses records in all states.
	AnyState bool
	// Newest makes List begin with the task that ended last.
	Newest bool
	// Payloads makes List read payloads and headers too.
	Payloads bool
}

// states are the states to look for.
func (f Filter) states() []State {
	switch {
	case f.AnyState:
		return []State{StateFailing, StateDead, StateRequeueing, StateRequeued, StateRecovered}
	case f.States == nil:
		return []State{StateDead, StateRequeueing}
	}
	return f.States
}

// plain returns whether the filter only has what the index has.
func (f Filter) plain() bool { return f.ID+f.Queue+f.Type+f.Batch+f.Error == "" }

// matches returns whether a filter chooses a record. A record that can't be read is chosen, so that it is named.
func (f Filter) matches(d documents.Document) bool {
	h, err := decodeHead(d)
	if err != nil {
		return true
	}
	is := func(wanted, has string) bool { return wanted == "" || wanted == has }
	return slices.Contains(f.states(), h.State) && is(f.ID, h.ID) && is(f.Queue, h.Queue) && is(f.Type, h.Type) &&
		is(f.Batch, h.Batch) && strings.Contains(h.Error, f.Error) &&
		(f.Since.IsZero() || !h.At.Before(f.Since)) && (f.Until.IsZero() || h.At.Before(f.Until))
}

// List yields the records in the order in which the tasks ended, or in reverse with Filter.Newest. It reads page by
// page, so it may miss later changes. An error that matches ErrMalformed is of one record, and other records follow.
// Any other error is the last value.
func (s *Store) List(ctx context.Context, f Filter) iter.Seq2[Task, error] {
	return func(yield func(Task, error) bool) {
		for d, err := range s.documents(ctx, f) {
			if err != nil {
				yield(Task{}, of("read dead tasks", err))
				return
			}
			if !yield(decode(d)) {
				return
			}
		}
	}
}

// documents yields the documents that a filter chooses, in the order of List.
func (s *Store) documents(ctx context.Context, f Filter) iter.Seq2[documents.Document, error] {
	r := documents.Reader{Collection: s.records, Wanted: f.matches, Bodies: f.Payloads}
	order := func(a, b documents.Document) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Key, b.Key)) }
	if f.Newest {
		forwards := order
		order = func(a, b documents.Document) int { return forwards(b, a) }
	}
	if f.ID != "" {
		r.Page = documents.InKeys(s.records, documents.Prefix(withID(f.ID)))
		return sorted(r.All(ctx), order)
	}
	var lists []iter.Seq2[documents.Document, error]
	for _, state := range f.states() {
		r.Page = documents.InTimes(s.records, documents.Times{
			Group: string(state), Since: f.Since, Until: f.Until, Newest: f.Newest,
		})
		lists = append(lists, r.All(ctx))
	}
	return merged(lists, order)
}

// sorted sorts a short list.
func sorted(
	list iter.Seq2[documents.Document, error], order func(a, b documents.Document) int,
) iter.Seq2[documents.Document, error] {
	return func(yield func(documents.Document, error) bool) {
		var all []documents.Document
		for d, err := range list {
			if err != nil {
				yield(d, err)
				return
			}
			all = append(all, d)
		}
		slices.SortFunc(all, order)
		for _, d := range all {
			if !yield(d, nil) {
				return
			}
		}
	}
}

// merged merges lists that are in order.
func merged(
	lists []iter.Seq2[documents.Document, error], order func(a, b documents.Document) int,
) iter.Seq2[documents.Document, error] {
	type source struct {
		next func() (documents.Document, error, bool)
		head documents.Document
	}
	return func(yield func(documents.Document, error) bool) {
		var sources []source
		for _, list := range lists {
			next, stop := iter.Pull2(list)
			defer stop()
			d, err, more := next()
			if err != nil {
				yield(d, err)
				return
			}
			if more {
				sources = append(sources, source{next, d})
			}
		}
		for len(sources) > 0 {
			first := 0
			for i := range sources {
				if order(sources[i].head, sources[first].head) < 0 {
					first = i
				}
			}
			if !yield(sources[first].head, nil) {
				return
			}
			d, err, more := sources[first].next()
			if err != nil {
				yield(d, err)
				return
			}
			if sources[first].head = d; !more {
				sources = slices.Delete(sources, first, first+1)
			}
		}
	}
}

// Count returns the number of matching records. It reads them unless the filter only has states and times.
func (s *Store) Count(ctx context.Context, f Filter) (n int, err error) {
	if !f.plain() {
		f.Payloads = false
		for _, err := range s.documents(ctx, f) {
			if err != nil {
				return 0, of("count dead tasks", err)
			}
			n++
		}
		return n, nil
	}
	for _, state := range f.states() {
		in, err := s.records.Count(ctx, documents.Times{Group: string(state), Since: f.Since, Until: f.Until})
		if err != nil {
			return 0, of("count dead tasks", err)
		}
		n += in
	}
	return n, nil
}
