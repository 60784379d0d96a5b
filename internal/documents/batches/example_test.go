package batches_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/documents/mongodocs"
	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/reservations/mongostore"
)

// A worker stores the result of a request. A second delivery of the task changes nothing.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := mongostore.Connect(ctx, os.Getenv("MONGODB_URI"), testenv.Patient)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = client.Disconnect(ctx) }()
	db := client.Database(fmt.Sprintf("hw_example_%d", os.Getpid()))
	defer func() { _ = db.Drop(ctx) }()

	store := batches.New(mongodocs.New(db), batches.Options{})
	if err = store.EnsureIndexes(ctx); err != nil {
		fmt.Println(err)
		return
	}
	b, existed, err := store.Open(ctx, batches.Batch{
		ID: "b-1", Name: "in.jsonl", Hash: "sha256 of the file", Lines: 2,
		Limit: "openai",
	})
	fmt.Println(b.Name, existed, err)

	for n := range 2 {
		err := store.Finish(ctx, batches.Result{
			Batch: b.ID, Line: 1, CustomID: "request-1",
			Response: &batches.Response{StatusCode: 200, RequestID: "req_1", Body: fmt.Appendf(nil, `{"delivery":%d}`, n)},
		})
		fmt.Println(err)
	}

	for r, err := range store.All(ctx, b.ID) {
		fmt.Println(r.Line, r.CustomID, string(r.Response.Body), err)
	}
	// Output:
	// in.jsonl false <nil>
	// <nil>
	// <nil>
	// 1 request-1 {"delivery":0} <nil>
}
