package envelope_test

import (
	"errors"
	"maps"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

func TestEncodeKeepsThePayloadPlainAndTheRestInHeaders(t *testing.T) {
	t.Parallel()
	e, err := envelope.Encode(summary{DocumentID: "a<b>&c", Size: 1200})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(e.Task.Payload()), `{"document_id":"a<b>&c","Size":1200}`; got != want {
		t.Errorf("payload %s, want %s", got, want)
	}
	want := map[string]string{
		"headway-version": "1",
		"headway-charges": `[{"limit":"openai","key":"team-a","tokens":{"requests":1,"tokens":1200}}]`,
	}
	if diff := cmp.Diff(want, e.Task.Headers()); diff != "" {
		t.Error(diff)
	}
	if e.Task.Type() != "summary" || e.Options.Queue != "summaries" {
		t.Errorf("type %q, queue %q", e.Task.Type(), e.Options.Queue)
	}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	sent := summary{DocumentID: "42", Size: 0.1 + 0.2}
	e, err := envelope.Encode(sent, tasks.Options{MaxRetry: tasks.NoRetry})
	if err != nil {
		t.Fatal(err)
	}
	got, err := envelope.Decode[summary](e.Task)
	if err != nil || got != sent {
		t.Errorf("decoded %+v, %v", got, err)
	}
	charges, err := envelope.Charges(e.Task)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sent.Charges(), charges); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(sent.Charges(), e.Charges); diff != "" {
		t.Error(diff)
	}
}

func TestSeveralCharges(t *testing.T) {
	t.Parallel()
	sent := summary{Models: envelope.MaxCharges - 1}
	e, err := envelope.Encode(sent)
	if err != nil {
		t.Fatal(err)
	}
	got, err := envelope.Charges(e.Task)
	if diff := cmp.Diff(sent.Charges(), got); err != nil || diff != "" || len(got) != envelope.MaxCharges {
		t.Error(err, diff)
	}
}

func TestPointerArguments(t *testing.T) {
	t.Parallel()
	e, err := envelope.Encode(&mail{To: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := envelope.Decode[*mail](e.Task)
	if err != nil || got.To != "ann" {
		t.Errorf("decoded %+v, %v", got, err)
	}
	if name, err := envelope.TypeOf[*mail](); name != "mail" || err != nil {
		t.Errorf("type %q", name)
	}
	if name, err := envelope.TypeOf[tasks.Args](); name != "" || err != nil {
		t.Errorf("an interface has type %q", name)
	}
	if charges, err := envelope.Charges(e.Task); charges != nil || err != nil {
		t.Errorf("charges %v, %v, want none", charges, err)
	}
}

func TestEncodeErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args tasks.Args
		over tasks.Options
		want error
		text string
	}{
		"nil":         {args: nil, want: tasks.ErrBadPayload, text: "no arguments"},
		"nil pointer": {args: (*mail)(nil), want: tasks.ErrBadPayload, text: "no arguments"},
		"null":        {args: list(nil), want: tasks.ErrBadPayload, text: "null"},
		"no type":     {args: nameless{}, want: tasks.ErrBadPayload, text: "TaskType of envelope_test.nameless is empty"},
		"unencodable": {args: unencodable{}, want: tasks.ErrBadPayload, text: "chan int"},
		"options": {
			args: summary{}, over: tasks.Options{Timeout: -1}, want: tasks.ErrInvalidOptions, text: "timeout: -1ns",
		},
		"nine charges":    {args: summary{Models: 8}, want: envelope.ErrTooManyCharges, text: `encode task "summary"`},
		"a bucket twice":  {args: summary{Same: true}, want: reservations.ErrInvalidCharge, text: "openai:team-a"},
		"no limit":        {args: nowhere{}, want: reservations.ErrInvalidCharge, text: "is no name of a limit"},
		"negative charge": {args: summary{Size: -1}, want: reservations.ErrInvalidCharge, text: "tokens of openai:team-a"},
		"NaN charge": {
			args: summary{Size: math.NaN()}, want: reservations.ErrInvalidCharge, text: "tokens of openai:team-a",
		},
		"infinite charge": {
			args: summary{Size: math.Inf(1)}, want: reservations.ErrInvalidCharge, text: "tokens of openai:team-a",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, err := envelope.Encode(c.args, c.over)
			if !errors.Is(err, c.want) || !strings.HasPrefix(err.Error(), "encode task ") ||
				!strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v, want %v with %q", err, c.want, c.text)
			}
			if e.Task != nil {
				t.Error("a task came with the error")
			}
		})
	}
}

// task returns a task that Headway encoded, with changed headers. An empty value removes a header.
func task(t *testing.T, payload string, change map[string]string) *asynq.Task {
	t.Helper()
	e, err := envelope.Encode(summary{DocumentID: "1", Size: 2})
	if err != nil {
		t.Fatal(err)
	}
	headers := maps.Clone(e.Task.Headers())
	for k, v := range change {
		headers[k] = v
		if v == "" {
			delete(headers, k)
		}
	}
	return asynq.NewTaskWithHeaders("summary", []byte(payload), headers)
}

func TestDecodeErrors(t *testing.T) {
	t.Parallel()
	ok := `{"document_id":"1"}`
	for name, c := range map[string]struct {
		task *asynq.Task
		want error
		text string
	}{
		"newer version": {
			task(t, ok, map[string]string{envelope.HeaderVersion: "2"}), envelope.ErrUnknownVersion, `"2", this is 1`,
		},
		"no number": {
			task(t, ok, map[string]string{envelope.HeaderVersion: "one"}), envelope.ErrUnknownVersion, `header headway-version`,
		},
		"missing version": {
			task(t, ok, map[string]string{envelope.HeaderVersion: ""}), envelope.ErrUnknownVersion,
			"missing beside headway-charges",
		},
		"another type": {
			asynq.NewTask("mail", []byte(ok)), envelope.ErrWrongType,
			`decode task "mail": tasks: wrong task type: want "summary"`,
		},
		"empty":            {task(t, "", nil), tasks.ErrBadPayload, "unexpected end"},
		"null":             {task(t, " null ", nil), tasks.ErrBadPayload, "null"},
		"cut off":          {task(t, `{"document_id":"1`, nil), tasks.ErrBadPayload, "unexpected end"},
		"more than JSON":   {task(t, ok+ok, nil), tasks.ErrBadPayload, "after top-level value"},
		"a list":           {task(t, `[]`, nil), tasks.ErrBadPayload, "array"},
		"a field's type":   {task(t, `{"document_id":1}`, nil), tasks.ErrBadPayload, "document_id"},
		"binary":           {task(t, "\x00\xff", nil), tasks.ErrBadPayload, "invalid character"},
		"foreign and torn": {asynq.NewTask("summary", []byte(`{`)), tasks.ErrBadPayload, "unexpected end"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args, err := envelope.Decode[summary](c.task)
			checkPermanent(t, err, c.want, c.text)
			if args != (summary{}) {
				t.Errorf("arguments %+v came with the error", args)
			}
		})
	}
	t.Run("an interface", func(t *testing.T) {
		t.Parallel()
		_, err := envelope.Decode[tasks.Args](task(t, ok, nil))
		checkPermanent(t, err, envelope.ErrWrongType, "interface")
	})
}

func checkPermanent(t *testing.T, err, want error, text string) {
	t.Helper()
	if err == nil || !strings.HasPrefix(err.Error(), "decode task ") {
		t.Fatalf("got %v, want a fault of decoding", err)
	}
	for _, target := range []error{want, tasks.ErrPermanent, asynq.SkipRetry} {
		if !errors.Is(err, target) {
			t.Errorf("%v does not match %v", err, target)
		}
	}
	if !strings.Contains(err.Error(), text) {
		t.Errorf("%q does not say %q", err, text)
	}
}

func TestDecodeIgnoresFieldsItDoesNotKnow(t *testing.T) {
	t.Parallel()
	got, err := envelope.Decode[summary](
		task(t, `{"document_id":"7","added_next_year":[1,{}]}`, map[string]string{"other": "x"}))
	if err != nil || got.DocumentID != "7" {
		t.Errorf("decoded %+v, %v", got, err)
	}
	charges, err := envelope.Charges(
		task(t, `{}`, map[string]string{envelope.HeaderCharges: `[{"limit":"a","tokens":{"n":1},"added":true}]`}))
	want := []reservations.Charge{{Limit: "a", Tokens: reservations.Tokens{"n": 1}}}
	if diff := cmp.Diff(want, charges); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestChargesErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		header string
		want   error
	}{
		"no JSON":      {"x", envelope.ErrBadHeader},
		"null":         {"null", envelope.ErrBadHeader},
		"an empty one": {"[]", envelope.ErrBadHeader},
		"an object":    {`{"limit":"a"}`, envelope.ErrBadHeader},
		"too large":    {`[{"limit":"a","tokens":{"n":1e999}}]`, envelope.ErrBadHeader},
		"no limit":     {`[{"tokens":{"n":1}}]`, reservations.ErrInvalidCharge},
		"negative":     {`[{"limit":"a","tokens":{"n":-1}}]`, reservations.ErrInvalidCharge},
		"nine": {
			`[{"limit":"a"},{"limit":"b"},{"limit":"c"},{"limit":"d"},{"limit":"e"},{"limit":"f"},{"limit":"g"},{"limit":"h"},` +
				`{"limit":"i"}]`,
			envelope.ErrTooManyCharges,
		},
		"twice": {
			`[{"limit":"a","key":"k"},{"limit":"a"},{"limit":"a","key":"k","shard":2}]`, reservations.ErrInvalidCharge,
		},
		"a bad second": {`[{"limit":"a"},{"limit":" "}]`, reservations.ErrInvalidCharge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := envelope.Charges(task(t, `{}`, map[string]string{envelope.HeaderCharges: c.header}))
			checkPermanent(t, err, c.want, "header headway-charges")
		})
	}
	_, err := envelope.Charges(task(t, `{}`, map[string]string{envelope.HeaderVersion: "9"}))
	checkPermanent(t, err, envelope.ErrUnknownVersion, "9")
}

func TestForeignTasks(t *testing.T) {
	t.Parallel()
	foreign := asynq.NewTask("summary", []byte(`{"document_id":"1","Size":5}`))
	if charges, err := envelope.Charges(foreign); charges != nil || err != nil {
		t.Errorf("charges %v, %v, want none", charges, err)
	}
	got, err := envelope.Decode[summary](foreign)
	if err != nil || got.DocumentID != "1" {
		t.Errorf("decoded %+v, %v", got, err)
	}
	charges, err := envelope.ChargesAs[summary](foreign)
	if diff := cmp.Diff(got.Charges(), charges); err != nil || diff != "" {
		t.Error(err, diff)
	}
	_, err = envelope.ChargesAs[summary](asynq.NewTask("summary", []byte(`{"Size":-5}`)))
	checkPermanent(t, err, reservations.ErrInvalidCharge, "-5 tokens must be")
	_, err = envelope.ChargesAs[summary](asynq.NewTask("summary", nil))
	checkPermanent(t, err, tasks.ErrBadPayload, "unexpected end")
	_, err = envelope.ChargesAs[summary](task(t, `{}`, map[string]string{envelope.HeaderVersion: "0"}))
	checkPermanent(t, err, envelope.ErrUnknownVersion, "0")
}

func TestChargesAsBelievesTheHeaders(t *testing.T) {
	t.Parallel()
	charges, err := envelope.ChargesAs[summary](task(t, `{"Size":99}`, nil))
	if err != nil || len(charges) != 1 || charges[0].Tokens["tokens"] != 2 {
		t.Errorf("charges %v, %v", charges, err)
	}
	e, err := envelope.Encode(summary{Empty: true})
	if err != nil {
		t.Fatal(err)
	}
	charges, err = envelope.ChargesAs[summary](e.Task)
	if err != nil || charges != nil {
		t.Errorf("charges %v, %v, want none", charges, err)
	}
}

func TestMaxRetry(t *testing.T) {
	t.Parallel()
	ours := map[string]string{envelope.HeaderVersion: "1"}
	for name, c := range map[string]struct {
		headers      map[string]string
		asynqs, want int
	}{
		"ours":                {ours, envelope.Slack + 3, 3},
		"ours without any":    {ours, envelope.Slack, 0},
		"changed by others":   {ours, 2, 0},
		"foreign":             {map[string]string{"trace": "1"}, 2, 2},
		"foreign without any": {nil, 0, 0},
		"unknown version":     {map[string]string{envelope.HeaderVersion: "2"}, 25, 25},
	} {
		if got := envelope.MaxRetry(asynq.NewTaskWithHeaders("summary", nil, c.headers), c.asynqs); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
