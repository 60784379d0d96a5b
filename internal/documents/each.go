package documents

import (
	"context"
	"iter"
)

// bodiesMost is about how many bytes of bodies Each reads together.
const bodiesMost = 8_000_000

// Reader reads many documents page by page. Between two pages it holds nothing open, so its user may be slow.
type Reader struct {
	Collection Collection
	// Page returns the documents behind last, which is nil for the first page. Fewer documents than Page are the end.
	Page func(ctx context.Context, last *Document) ([]Document, error)
	// Wanted chooses documents by their heads; nil chooses all.
	Wanted func(d Document) bool
	// Bodies says whether to read the bodies of the wanted documents.
	Bodies bool
}

// All yields the wanted documents. An error is the last value.
func (r Reader) All(ctx context.Context) iter.Seq2[Document, error] {
	return func(yield func(Document, error) bool) {
		var last *Document
		for {
			page, err := r.Page(ctx, last)
			if err != nil {
				yield(Document{}, err)
				return
			}
			var wanted []Document
			for _, d := range page {
				if r.Wanted == nil || r.Wanted(d) {
					wanted = append(wanted, d)
				}
			}
			if !r.yield(ctx, wanted, yield) || len(page) < Page {
				return
			}
			last = &page[len(page)-1]
		}
	}
}

// yield yields some documents, with their bodies if needed. It returns false at the end of the iteration.
func (r Reader) yield(ctx context.Context, wanted []Document, yield func(Document, error) bool) bool {
	for len(wanted) > 0 {
		n, size := 0, 0
		var keys []string
		for n < len(wanted) && (n == 0 || size+wanted[n].Size <= bodiesMost) {
			size += wanted[n].Size
			keys = append(keys, wanted[n].Key)
			n++
		}
		var whole map[string]Document
		if size > 0 && r.Bodies {
			var err error
			if whole, err = r.Collection.Get(ctx, keys, true); err != nil {
				return yield(Document{}, err) && false
			}
		}
		for _, d := range wanted[:n] {
			if whole != nil {
				read, found := whole[d.Key]
				if !found || r.Wanted != nil && !r.Wanted(read) {
					continue // it was deleted or changed meanwhile
				}
				d = read
			}
			if !yield(d, nil) {
				return false
			}
		}
		wanted = wanted[n:]
	}
	return true
}

// InKeys returns a page function for a range of keys.
func InKeys(c Collection, keys Keys) func(context.Context, *Document) ([]Document, error) {
	return func(ctx context.Context, last *Document) ([]Document, error) {
		page := keys
		if page.Limit = Page; last != nil {
			page.After = last.Key
		}
		return c.ByKey(ctx, page)
	}
}

// InTimes returns a page function for a range of times.
func InTimes(c Collection, times Times) func(context.Context, *Document) ([]Document, error) {
	return func(ctx context.Context, last *Document) ([]Document, error) {
		page := times
		page.Limit, page.After = Page, last
		return c.ByTime(ctx, page)
	}
}
