package envelope_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/tasks"
)

// Decoding any input either works or fails permanently. A decoded task can be encoded and decoded again.
func FuzzDecode(f *testing.F) {
	f.Add("summary", []byte(`{"document_id":"1","Size":2}`), "1")
	f.Add("summary", []byte(`null`), "1")
	f.Add("mail", []byte(`{}`), "2")
	f.Add("summary", []byte("\xff{"), "")
	f.Fuzz(func(t *testing.T, name string, payload []byte, version string) {
		headers := map[string]string{envelope.HeaderVersion: version}
		got, err := envelope.Decode[summary](asynq.NewTaskWithHeaders(name, payload, headers))
		if err != nil {
			if !errors.Is(err, tasks.ErrPermanent) || err.Error() == "" {
				t.Fatalf("%T %v is not permanent", err, err)
			}
			return
		}
		if name != "summary" || version != "1" {
			t.Fatalf("decoded type %q of version %q", name, version)
		}
		if got.Size < 0 {
			return
		}
		e, err := envelope.Encode(got)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := envelope.Decode[summary](e.Task); err != nil || again != got {
			t.Fatalf("%+v became %+v, %v", got, again, err)
		}
	})
}

// Whatever the headers contain, decoded charges have different buckets, and can be checked against limits.
func FuzzHeaders(f *testing.F) {
	f.Add("1", `[{"limit":"a","key":"k","tokens":{"n":1}}]`)
	f.Add("1", `[{"limit":"tenant","key":"k","tokens":{"n":1}},{"limit":"a","tokens":{"n":1}}]`)
	f.Add("1", `[{"limit":"a"},{"limit":"a","key":""}]`)
	f.Add("1", `[{"limit":"a"},{"limit":"b"},{"limit":"c"},{"limit":"d"},{"limit":"e"},{"limit":"f"},{"limit":"g"},`+
		`{"limit":"h"},{"limit":"i"}]`)
	f.Add("1", `[]`)
	f.Add("", `[{"limit":"a","tokens":{"n":-1e308}}]`)
	f.Add("2", `null`)
	f.Fuzz(func(t *testing.T, version, charges string) {
		task := asynq.NewTaskWithHeaders("summary", []byte(`{}`), map[string]string{
			envelope.HeaderVersion: version, envelope.HeaderCharges: charges,
		})
		got, err := envelope.Charges(task)
		if err != nil {
			if !errors.Is(err, asynq.SkipRetry) {
				t.Fatalf("%T %v is not permanent", err, err)
			}
			return
		}
		if len(got) == 0 || len(got) > envelope.MaxCharges || version != "1" {
			t.Fatalf("%q of version %q passed: %+v", charges, version, got)
		}
		buckets := map[[2]string]bool{}
		for _, c := range got {
			buckets[[2]string{c.Limit, c.Key}] = true
			for meter, n := range c.Tokens {
				if !(n >= 0) {
					t.Fatalf("%v of %q", n, meter)
				}
			}
		}
		if buckets[[2]string{}] || len(buckets) != len(got) {
			t.Fatalf("%q passed", charges)
		}
		if as, err := envelope.ChargesAs[summary](task); err != nil || !reflect.DeepEqual(as, got) {
			t.Fatalf("%v, %v", as, err)
		}
	})
}
