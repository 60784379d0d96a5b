package capacity

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/headway-go/headway/cmd/internal/enqueue"
	"github.com/headway-go/headway/internal/products/simulate"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/config"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

// callFlags say what a call is like.
type callFlags struct {
	limits   []string
	tokens   string
	charge   []string
	used     string
	latency  string
	flows    []string
	priority string
	urgent   bool
	model    string
}

func (c *callFlags) flags(f *pflag.FlagSet) {
	f.StringArrayVar(&c.limits, "limit", nil, "a `LIMIT[:KEY]` that calls take from; repeat it for several, the "+
		"narrowest first, the provider's last; if left out, the only limit of the file")
	f.StringVar(&c.tokens, "tokens", "", "the `number` of tokens that is estimated for a call, or a range")
	f.StringArrayVar(&c.charge, "charge", nil, "what a call takes of another meter, as `METER=N`; repeat it for several")
	f.StringVar(&c.used, "used", "",
		"the `number` of tokens that a call uses, a part such as 80%, or a range; all if left out")
	f.StringVar(&c.latency, "latency", "5s", "how long a call takes: a `time`, or a range")
	f.StringArrayVar(&c.flows, "flow", nil,
		"a flow of calls as `NAME[=SHARE]`; repeat it for several, to which calls belong by chance")
	f.StringVar(&c.priority, "priority", "", "the `priority` of the calls; the lowest when left out")
	f.BoolVar(&c.urgent, "urgent", false, "calls start before ordinary ones, within the headroom of meters")
	f.StringVar(&c.model, "model", "", "the model of all requests of a --batch, instead of what each line says")
}

// checkFlags wants one source of calls.
func (j *job) checkFlags() error {
	sources := 0
	for _, given := range []bool{j.arrive != "" || j.backlog != 0, j.trace != "", j.batch != ""} {
		if given {
			sources++
		}
	}
	switch {
	case sources == 0:
		return cli.Usage("nothing to simulate: say how calls arrive by --arrive 9/s, --backlog 1000, --trace FILE or " +
			"--batch FILE")
	case sources > 1:
		return cli.Usage("--arrive or --backlog, --trace and --batch exclude each other: name one source of calls")
	case j.backlog < 0:
		return cli.Usage("--backlog %d must be zero or more", j.backlog)
	case j.workers < 0:
		return cli.Usage("--workers %d must be zero or more", j.workers)
	case j.during <= 0:
		return cli.Usage("--for %v must be above zero", j.during)
	case j.chart == "-" && j.asJSON:
		return cli.Usage("--chart - and --json both write to standard output: name a file for the chart")
	case j.trace != "" && j.trace == j.file:
		return cli.Usage("--trace %s is the file with the limits: name the file with the calls", j.trace)
	}
	if j.chart != "" && j.chart != "-" {
		return cli.CheckFile(j.chart)
	}
	return nil
}

// load makes the calls, and sets the start of the simulation.
func (j *job) load(ctx context.Context, c config.Config, to *simulate.Config) (calls []simulate.Call, err error) {
	pattern, err := j.pattern(c)
	if err != nil {
		return nil, err
	}
	if to.Start = simulate.StartDefault(); j.from != "" {
		if to.Start, err = time.Parse(time.RFC3339, j.from); err != nil {
			return nil, cli.Usage("--from: %q must look like 2026-01-05T08:00:00Z", j.from)
		}
	}
	switch {
	case j.trace != "":
		var start time.Time
		if calls, start, err = j.readTrace(pattern, c.Limits); !start.IsZero() && j.from == "" {
			to.Start = start
		}
	case j.batch != "":
		calls, err = j.readBatch(ctx, pattern, c.Limits)
	default:
		calls, err = j.generate(pattern, c.Limits)
	}
	return calls, err
}

// pattern reads what a call is like.
func (j *job) pattern(c config.Config) (p simulate.Pattern, err error) {
	f := &j.calls
	names := f.limits
	if len(names) == 0 && len(c.Limits) == 1 {
		names = []string{c.Limits[0].Name}
	}
	if len(names) == 0 && j.trace == "" && f.model == "" {
		return p, cli.Usage("--limit is required: %s has %d limits", j.file, len(c.Limits))
	}
	for _, text := range names {
		name, key, keyed := strings.Cut(text, ":")
		if keyed && key == "" {
			return p, cli.Usage("--limit %s: a key must follow the colon", text)
		}
		p.Buckets = append(p.Buckets, reservations.Charge{Limit: name, Key: key})
	}
	if p.Tokens, _, err = numbers("--tokens", f.tokens); err != nil {
		return p, err
	}
	if f.used != "" {
		used, share, faulty := numbers("--used", f.used)
		if err = faulty; err != nil {
			return p, err
		}
		p.Used, p.Share = &used, share
	}
	if p.Latency, err = times("--latency", f.latency); err != nil {
		return p, err
	}
	if p.Charge, err = charges(f.charge); err != nil {
		return p, err
	}
	if p.Flows, err = flows(f.flows); err != nil {
		return p, err
	}
	p.Priority, p.Urgent = f.priority, f.urgent
	return p, nil
}

// generate makes calls that arrive by chance.
func (j *job) generate(p simulate.Pattern, limits []reservations.Limit) ([]simulate.Call, error) {
	a := simulate.Arrivals{Backlog: j.backlog, Seed: j.seed, For: j.during}
	if j.arrive != "" {
		tokens, period, err := config.ParseRate(j.arrive)
		if err != nil {
			return nil, cli.Usage("--arrive: %w", err)
		}
		if a.Rate = tokens / period.Seconds(); !(a.Rate > 0) {
			return nil, cli.Usage("--arrive %s must be above zero, e.g. 9/s", j.arrive)
		}
	}
	calls, err := a.Calls(p, limits)
	if err != nil {
		return nil, cli.Usage("--%w", err)
	}
	return calls, nil
}

// readTrace reads recorded calls.
func (j *job) readTrace(p simulate.Pattern, limits []reservations.Limit) ([]simulate.Call, time.Time, error) {
	in := io.NopCloser(j.env.In)
	if j.trace != "-" {
		file, err := os.Open(j.trace)
		if err != nil {
			return nil, time.Time{}, &cli.UsageError{Err: err}
		}
		in = file
	}
	defer func() { _ = in.Close() }()
	calls, start, err := simulate.ReadTrace(in, p, limits, j.seed)
	if err != nil {
		return nil, start, cli.Usage("--trace %s: %w", j.trace, err)
	}
	return calls, start, nil
}

// readBatch reads the requests of a batch file: all of them wait at the start.
func (j *job) readBatch(
	ctx context.Context, p simulate.Pattern, limits []reservations.Limit,
) (calls []simulate.Call, err error) {
	b := enqueue.Batch{
		Name: j.batch, In: j.env.In, Config: j.file, Limits: j.calls.limits, Model: j.calls.model,
		Terms: tasks.Terms{Urgent: p.Urgent, Priority: p.Priority},
	}
	if len(p.Flows) > 1 {
		return nil, cli.Usage("--flow: the requests of a batch are one flow: name one")
	}
	if len(p.Flows) == 1 {
		b.Terms.Flow = p.Flows[0].Name
	}
	if len(b.Limits) == 0 && b.Model == "" {
		for _, bucket := range p.Buckets {
			b.Limits = append(b.Limits, bucket.Bucket().String())
		}
	}
	source, err := simulate.NewSource(p, limits, j.seed)
	if err != nil {
		return nil, asUsage(err)
	}
	err = b.Charges(ctx, func(line int, charges []reservations.Charge) {
		calls = append(calls, source.Call(line, charges))
	})
	return calls, err
}

// numbers reads a number or a range of numbers; as parts of one where they are percentages. Empty is zero.
func numbers(flag, text string) (r simulate.Range, share bool, err error) {
	if text == "" {
		return r, false, nil
	}
	least, most, ranged := strings.Cut(text, "..")
	share = strings.HasSuffix(least, "%")
	read := func(text string) (n float64, ok bool) {
		number, percent := strings.CutSuffix(text, "%")
		n, err := strconv.ParseFloat(strings.ReplaceAll(number, "_", ""), 64)
		if percent {
			n /= 100
		}
		return n, err == nil && percent == share && n >= 0
	}
	var ok, also bool
	r.Least, ok = read(least)
	if r.Most, also = r.Least, true; ranged {
		r.Most, also = read(most)
	}
	if !ok || !also || r.Most < r.Least || flag == "--tokens" && share {
		example := "1500 or 500..2500"
		if flag == "--used" {
			example += ", or a part: 80% or 60%..90%"
		}
		return r, false, cli.Usage("%s: %.80q must be a number or a range, e.g. %s", flag, text, example)
	}
	return r, share, nil
}

// times reads a time or a range of times, in seconds.
func times(flag, text string) (r simulate.Range, err error) {
	least, most, ranged := strings.Cut(text, "..")
	from, err := time.ParseDuration(least)
	to, other := from, error(nil)
	if ranged {
		to, other = time.ParseDuration(most)
	}
	if errors.Join(err, other) != nil || from < 0 || to < from {
		return r, cli.Usage("%s: %.80q must be a time or a range, e.g. 5s or 2s..20s", flag, text)
	}
	return simulate.Range{Least: from.Seconds(), Most: to.Seconds()}, nil
}

// charges reads what a call takes of meters.
func charges(texts []string) (reservations.Tokens, error) {
	all := reservations.Tokens{}
	for _, text := range texts {
		meter, number, ok := strings.Cut(text, "=")
		n, err := strconv.ParseFloat(number, 64)
		if _, twice := all[meter]; !ok || err != nil || n < 0 || meter == "" || twice {
			return nil, cli.Usage("--charge: %.80q must be a meter and a number, e.g. input_tokens=800, each meter once", text)
		}
		all[meter] = n
	}
	return all, nil
}

// flows reads flows and their shares.
func flows(texts []string) (all []simulate.FlowShare, err error) {
	for _, text := range texts {
		name, number, shared := strings.Cut(text, "=")
		share := 1.
		if shared {
			if share, err = strconv.ParseFloat(number, 64); err != nil || !(share > 0) {
				return nil, cli.Usage("--flow: %.80q must be a name, or a name and a share above zero, e.g. acme=3", text)
			}
		}
		if name == "" {
			return nil, cli.Usage("--flow: %.80q must have a name", text)
		}
		all = append(all, simulate.FlowShare{Name: name, Share: share})
	}
	return all, nil
}

// flowName is what people call a flow.
func flowName(name string) string { return cmp.Or(name, "(no flow)") }
