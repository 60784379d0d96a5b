package mongodocs_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/documents"
	"github.com/headway-go/headway/internal/documents/mongodocs"
	"github.com/headway-go/headway/internal/test/testenv"
)

// refused is the answer to writes of which one was rolled back, and the others were not.
func refused(index, code int, text string) bson.D {
	return append(testenv.Wrote(), bson.E{Key: "writeErrors", Value: bson.A{bson.D{
		{Key: "index", Value: index}, {Key: "code", Value: code}, {Key: "errmsg", Value: text},
	}}})
}

func write(key, old string) documents.Write {
	return documents.Write{Old: old, Document: documents.Document{
		Key: key, Version: key + " new", Head: documents.Empty,
	}}
}

// What the server rolled back is sent again, and nothing else of the same command is. What may have been applied is
// not.
func TestTransientErrorsOfWrites(t *testing.T) {
	t.Parallel()
	const deadlockOfOne = 16908292 // as DocumentDB encodes it
	for name, c := range map[string]struct {
		answers []bson.D
		sent    []string
		want    []error
	}{
		"a deadlock of the command": {
			[]bson.D{testenv.Deadlock(), testenv.Deadlock(), testenv.Wrote()},
			[]string{"insert", "insert", "insert"},
			[]error{nil, nil},
		},
		"a deadlock of one write": {
			[]bson.D{refused(1, 1, "deadlock detected"), testenv.Wrote()}, []string{"insert", "insert"}, []error{nil, nil},
		},
		"a deadlock of one write, by its code": {
			[]bson.D{refused(0, deadlockOfOne, "error"), testenv.Wrote()}, []string{"insert", "insert"}, []error{nil, nil},
		},
		"another writer, after a deadlock": {
			[]bson.D{refused(1, 1, "deadlock detected"), refused(0, 11000, "duplicate key")},
			[]string{"insert", "insert"},
			[]error{nil, documents.ErrConflict},
		},
		"a step down": {
			[]bson.D{testenv.SteppingDown()}, []string{"insert"}, []error{documents.ErrUnavailable, documents.ErrUnavailable},
		},
		"for ever": {
			slices.Repeat([]bson.D{testenv.Deadlock()}, 20), slices.Repeat([]string{"insert"}, 8),
			[]error{documents.ErrUnavailable, documents.ErrUnavailable},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				db, sent := testenv.MongoAnswers(t, c.answers)
				errs := mongodocs.New(db).Collection("c").Put(t.Context(), []documents.Write{write("a", ""), write("b", "")})
				for i, err := range errs {
					if !errors.Is(err, c.want[i]) {
						t.Errorf("write %d: %v, want %v", i, err, c.want[i])
					}
				}
				if !slices.Equal(sent(), c.sent) {
					t.Errorf("sent %v, want %v", sent(), c.sent)
				}
			})
		})
	}
}

// New and changed documents are written by two commands, so that an error of one says nothing of the other.
func TestTransientErrorOfOneCommand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, sent := testenv.MongoAnswers(t, []bson.D{testenv.Wrote(), testenv.Deadlock(), testenv.Wrote()})
		for i, err := range mongodocs.New(db).Collection("c").Put(
			t.Context(), []documents.Write{write("a", ""), write("b", "old")}) {
			if err != nil {
				t.Errorf("write %d: %v", i, err)
			}
		}
		if want := []string{"insert", "update", "update"}; !slices.Equal(sent(), want) {
			t.Errorf("sent %v, want %v", sent(), want)
		}
	})
}

func TestTransientErrorsOfReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		answer := testenv.Found(bson.D{{Key: "_id", Value: "a"}, {Key: "version", Value: "v"}})
		db, sent := testenv.MongoAnswers(t, []bson.D{
			testenv.SteppingDown(), testenv.Deadlock(), answer, // Get
			testenv.SteppingDown(), answer, // ByKey
			testenv.SteppingDown(), testenv.Found(bson.D{{Key: "n", Value: 7}}), // Count
			testenv.Deadlock(), testenv.Wrote(), // Delete
			testenv.SteppingDown(), // Delete
		})
		c := mongodocs.New(db).Collection("c")
		if got, err := c.Get(t.Context(), []string{"a"}, true); err != nil || got["a"].Version != "v" {
			t.Errorf("%+v %v", got, err)
		}
		if got, err := c.ByKey(t.Context(), documents.Keys{To: "z", Limit: 2}); err != nil || len(got) != 1 {
			t.Errorf("%+v %v", got, err)
		}
		if n, err := c.Count(t.Context(), documents.Times{Group: "g"}); err != nil || n != 7 {
			t.Errorf("%d %v", n, err)
		}
		if done, err := c.Delete(t.Context(), "a", "v"); err != nil || !done {
			t.Errorf("%v %v", done, err)
		}
		if _, err := c.Delete(t.Context(), "a", "v"); !errors.Is(err, documents.ErrUnavailable) {
			t.Errorf("a deletion that may have been applied: %v", err)
		}
		if n := len(sent()); n != 10 {
			t.Errorf("%d commands: %v", n, sent())
		}
	})
}
