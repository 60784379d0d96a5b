package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/spf13/cobra"

	"github.com/headway-go/headway/bench/contest"
	"github.com/headway-go/headway/bench/field"
	"github.com/headway-go/headway/bench/fleet"
	"github.com/headway-go/headway/bench/library"
	"github.com/headway-go/headway/bench/results"
	"github.com/headway-go/headway/bench/setup"
	"github.com/headway-go/headway/bench/works"
)

// reservationsWork is the name of the work without workers.
const reservationsWork = "reservations"

// slice is the duration of each way to reserve in a round.
const slice = 600 * time.Millisecond

type runSettings struct {
	only        []string
	reps, peers int
	quick, dry  bool
	profile     string
	where       paths
}

func runCommand(env cli.Environment) *cobra.Command {
	var s runSettings
	c := &cobra.Command{
		Use:   "run",
		Short: "Measure, and write the report",
		Long: `Run lets the contestants of each work take turns: Headway, and contestants in a goal, --reps times;
others --peers times. Each result is stored at once, and replaces results of earlier sessions for the
same work and contestant. The page shows all stored results. This call judges only the goals of the
works that it ran; the exit code is 1 if one of them is missed.`,
		RunE: func(c *cobra.Command, _ []string) error { return measureAll(c.Context(), s, env) },
	}
	c.Flags().StringSliceVar(&s.only, "only", nil, "names of works and contestants, with commas; see bench list")
	c.Flags().IntVar(&s.reps, "reps", 5, "how often Headway, and contestants in a goal, do each work")
	c.Flags().IntVar(&s.peers, "peers", 1, "how often the others do")
	c.Flags().BoolVar(&s.quick, "quick", false, "one run each, and slow ones are cut off sooner")
	c.Flags().BoolVar(&s.dry, "dry-run", false, "only list the runs, and their approximate duration")
	c.Flags().StringVar(&s.profile, "profile", "",
		"a folder for CPU profiles of the worker processes, for go tool pprof")
	s.where.flags(c)
	return c
}

// turn is one planned run.
type turn struct {
	work       works.Work
	contestant contest.Contestant // nil for the work without workers
	repetition int
}

func measureAll(ctx context.Context, s runSettings, env cli.Environment) error {
	if s.quick {
		s.reps, s.peers = 1, 1
	}
	turns, err := plan(s)
	if err != nil {
		return err
	}
	if s.dry {
		return printPlan(env.Out, turns)
	}
	mongoURI := env.Getenv("MONGODB_URI")
	if mongoURI == "" {
		return &cli.UsageError{Err: errors.New("MONGODB_URI is not set; use make bench, or eval \"$(scripts/services env)\"")}
	}
	profile, err := profileFolder(s.profile)
	if err != nil {
		return err
	}
	file, err := results.Load(s.where.results())
	if err != nil {
		return err
	}
	session, err := setup.Describe(ctx, mongoURI)
	if err != nil {
		return err
	}
	session.Quick = s.quick
	name := uuid.NewString()[:8]
	file.Sessions[name] = session
	m := &measuring{
		runner: &fleet.Runner{MongoURI: mongoURI, Stderr: env.Err, Profile: profile}, file: file, path: s.where.results(),
		session:  name,
		progress: newProgress(env.Err, turns), mongoURI: mongoURI, redisURL: env.Getenv("REDIS_URL"),
	}
	failed := m.all(ctx, turns)
	return errors.Join(failed, conclude(s.where, file, name, env.Out))
}

// profileFolder makes the folder. Empty stays empty.
func profileFolder(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	if err := os.MkdirAll(path, 0o755); err != nil { //nolint:gosec // no secrets
		return "", fmt.Errorf("bench: folder for profiles: %w", err)
	}
	return filepath.Abs(path)
}

// plan lists the turns: work by work, and within a work all contestants once, then all again.
func plan(s runSettings) ([]turn, error) {
	if err := known(s.only); err != nil {
		return nil, err
	}
	var turns []turn
	for _, w := range append(works.All(s.quick), works.Work{
		Name: reservationsWork, Letter: "g", Ideal: 12 * time.Second,
	}) {
		for repetition := range max(s.reps, s.peers) {
			turns = append(turns, round(s, w, repetition)...)
		}
	}
	if len(turns) == 0 {
		return nil, &cli.UsageError{
			Err: fmt.Errorf("--only %s leaves no run; see bench list", strings.Join(s.only, ",")),
		}
	}
	return turns, nil
}

func round(s runSettings, w works.Work, repetition int) (turns []turn) {
	if !chosen(s.only, w.Name, workNames()) {
		return nil
	}
	if w.Name == reservationsWork {
		if repetition < s.reps && chosen(s.only, works.Headway, contestantNames()) {
			turns = append(turns, turn{work: w, repetition: repetition})
		}
		return turns
	}
	for _, c := range field.All() {
		often := c.Name() == works.Headway || w.Often(c.Name())
		if chosen(s.only, c.Name(), contestantNames()) && takesPart(c, w) &&
			(repetition < s.peers || often && repetition < s.reps) {
			turns = append(turns, turn{work: w, contestant: c, repetition: repetition})
		}
	}
	return turns
}

// takesPart returns whether the contestant does the work.
func takesPart(c contest.Contestant, w works.Work) bool {
	return w.Runs(c.Name()) && refusal(c, w) == ""
}

func refusal(c contest.Contestant, w works.Work) string {
	if picky, ok := c.(contest.Picky); ok {
		return picky.Refuses(w.PublicFor(c.Name()))
	}
	return ""
}

// chosen returns whether name is chosen. If only has no name of its kind, all are chosen.
func chosen(only []string, name string, kind []string) bool {
	named := slices.ContainsFunc(only, func(o string) bool { return slices.Contains(kind, o) })
	return !named || slices.Contains(only, name)
}

func known(only []string) error {
	for _, o := range only {
		if !slices.Contains(workNames(), o) && !slices.Contains(contestantNames(), o) {
			return &cli.UsageError{Err: fmt.Errorf("--only: %q is neither a work (%s) nor a contestant (%s)",
				o, strings.Join(workNames(), ", "), strings.Join(contestantNames(), ", "))}
		}
	}
	return nil
}

func workNames() []string {
	var names []string
	for _, w := range works.All(false) {
		names = append(names, w.Name)
	}
	return append(names, reservationsWork)
}

func contestantNames() []string {
	var names []string
	for _, c := range field.All() {
		names = append(names, c.Name())
	}
	return names
}

// measuring runs the turns and stores their results.
type measuring struct {
	runner             *fleet.Runner
	file               *results.File
	path, session      string
	progress           *progress
	mongoURI, redisURL string
	bench              *library.Bench
}

// all runs all turns. It goes on after a failed run, and names it in the error.
func (m *measuring) all(ctx context.Context, turns []turn) error {
	var errs []error
	for _, t := range turns {
		if ctx.Err() != nil {
			return errors.Join(append(errs, ctx.Err())...)
		}
		m.progress.begin(t)
		found, err := m.one(ctx, t)
		if err != nil {
			errs = append(errs, err)
			m.progress.failed(t, err)
			continue
		}
		for _, r := range found {
			r.Work, r.Repetition, r.When, r.Session = t.work.Name, t.repetition, time.Now().UTC(), m.session
			if t.repetition > 0 {
				r.Series = nil
			}
			m.file.Add(r)
			m.progress.end(r)
		}
		if err = m.file.Save(m.path); err != nil {
			return errors.Join(append(errs, err)...)
		}
	}
	if m.bench != nil {
		errs = append(errs, m.bench.Close(ctx))
	}
	return errors.Join(errs...)
}

func (m *measuring) one(ctx context.Context, t turn) ([]results.Result, error) {
	if t.contestant == nil {
		return m.reservations(ctx)
	}
	measured, err := m.runner.Run(ctx, t.contestant, t.work)
	if err != nil {
		return nil, err
	}
	return []results.Result{
		{Contestant: t.contestant.Name(), Metrics: measured.Metrics, Series: measured.Series, Note: measured.Note},
	}, nil
}

// reservations is one round of the work without workers.
func (m *measuring) reservations(ctx context.Context) ([]results.Result, error) {
	if m.bench == nil {
		bench, err := library.New(ctx, m.mongoURI, m.redisURL, "headway-bench-"+m.session, library.Many)
		if err != nil {
			return nil, err
		}
		m.bench = bench
	}
	found, err := m.bench.Round(ctx, slice)
	if err != nil {
		return nil, err
	}
	var list []results.Result
	for _, name := range []string{library.Headway, library.OneByOne, library.Rate} {
		list = append(list, results.Result{Contestant: name, Metrics: found[name]})
	}
	return list, nil
}
