package mongostore

import (
	"testing"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/internal/stored"
)

// usual is a bucket of two meters in full use.
func usual() bucket.Bucket {
	limit := reservations.Limit{Name: "api", Meters: []reservations.Meter{
		reservations.PerMinute("requests", 500), reservations.PerMinute("tokens", 200_000),
	}}
	now, b := time.Unix(1_767_225_600, 0).UTC(), bucket.Bucket{}
	for id := range int64(70) {
		tokens := []float64{7.5, 3000}
		b, _ = bucket.Fold(b, bucket.Rules(limit), now.Add(time.Duration(id)*time.Second), []bucket.Request{
			{Op: bucket.OpStart, Tokens: tokens}, {Op: bucket.OpSettle, ID: id + 1, Tokens: []float64{0, 10}},
		})
	}
	return b
}

// BenchmarkDocument is what a swap costs this process: the update as it is sent, and the document as it is read.
func BenchmarkDocument(b *testing.B) {
	c := change{after: usual()}
	document := stored.Encode(newDocument(c.after))
	b.Run("write", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			stored.Encode(c.update(newDocument(c.after)))
		}
	})
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		s := new(Store)
		for b.Loop() {
			if _, err := s.state("api", document); err != nil {
				b.Fatal(err)
			}
		}
	})
}
