package mongodocs_test

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/documents"
	"github.com/headway-go/headway/internal/documents/mongodocs"
	"github.com/headway-go/headway/internal/test/testenv"
)

// Writers change the same documents together, each in another order. A database that locks a document for each write
// of a round trip must not let them lock each other out.
func TestWritersInAnyOrder(t *testing.T) {
	t.Parallel()
	in := mongodocs.New(testenv.Database(t)).Collection("things")
	const documentsEach, rounds, writers = 30, 5, 8
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(w)))
			for range rounds {
				var changes []documents.Change
				for _, i := range random.Perm(documentsEach) {
					changes = append(changes, documents.Change{Key: strconv.Itoa(i), Apply: add})
				}
				if err := errors.Join(documents.Update(t.Context(), in, changes)...); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	found, err := in.Get(t.Context(), []string{"0", "29"}, false)
	for key, d := range found {
		if n, _ := d.Head.Lookup("n").AsInt64OK(); n != rounds*writers {
			t.Errorf("%s was changed %d times of %d", key, n, rounds*writers)
		}
	}
	if err != nil || len(found) != 2 {
		t.Errorf("%d documents, %v", len(found), err)
	}
}

// add counts the changes of a document.
func add(d *documents.Document) (bool, error) {
	n, _ := d.Head.Lookup("n").AsInt64OK()
	head, err := bson.Marshal(bson.M{"n": n + 1})
	d.Head = head
	return true, err
}
