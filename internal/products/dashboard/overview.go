package dashboard

import (
	"net/http"
	"strings"

	"github.com/headway-go/headway/internal/state"
)

// bucketsShown is how many buckets the first page shows.
const bucketsShown = 12

// overviewData is the first page: what is stuck, then the figures.
type overviewData struct {
	Problems []problem
	Totals   totals
	Charts   []chart
	Buckets  []bucketView
	More     int // further buckets
	Queues   []queueView
	Batches  []batchRow
	Last     string // when the last waiting task is expected to start
}

func (s *Server) overviewPage(r *http.Request) (view, error) {
	f := s.look(r.Context())
	samples, err := s.history.samples(r.Context(), f.At)
	f.Read(state.PartHistory, func() error { return err })
	d := overviewData{
		Problems: problems(f), Totals: f.Totals(), Charts: fleetCharts(samples, f.At), Queues: f.queueViews(),
	}
	all := f.Buckets()
	last := -1.
	for _, b := range all {
		if b.EndIn != nil {
			last = max(last, *b.EndIn)
		}
	}
	if last >= 0 {
		d.Last = seconds(last)
	}
	d.More = max(0, len(all)-bucketsShown)
	for _, b := range all[:min(len(all), bucketsShown)] {
		d.Buckets = append(d.Buckets, newBucketView(b))
	}
	for _, b := range f.Batches {
		if b.State == "open" && len(d.Batches) < 5 {
			d.Batches = append(d.Batches, b)
		}
	}
	return view{Name: "overview", Title: "Overview", Nav: "/", Data: d}, nil
}

// limitData is the page of one bucket, or of all limits.
type limitData struct {
	Name    string
	Buckets []bucketView
	More    bool
}

func (s *Server) limitPage(r *http.Request) (view, error) {
	name := r.URL.Query().Get("name")
	f := s.look(r.Context())
	samples, _ := s.history.samples(r.Context(), f.At) // without them the charts are empty, and the first page says why
	d := limitData{Name: name}
	found := f.Buckets()
	if name != "" {
		limit, key, _ := strings.Cut(name, ":")
		b, err := s.config.Reader.One(r.Context(), limit, key)
		if err != nil {
			return view{}, err
		}
		found = []state.Bucket{b}
	}
	for _, b := range found {
		v := newBucketView(b)
		v.Charts = bucketCharts(samples, b.Bucket, f.At)
		if name != "" {
			v.Actions = s.bucketActions(b)
		}
		d.Buckets = append(d.Buckets, v)
	}
	for _, limit := range f.Limits {
		d.More = d.More || limit.More && name == ""
	}
	title := "Limits"
	if name != "" {
		title = "Limit " + name
	}
	return view{Name: "limit", Title: title, Nav: "/limit", Data: d}, f.unread(state.PartLimits, len(found))
}
