package batches_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.uber.org/goleak"

	"github.com/headway-go/headway/internal/calls/coalesce"
	"github.com/headway-go/headway/internal/documents"
	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/documents/mongodocs"
	"github.com/headway-go/headway/internal/documents/redisdocs"
	"github.com/headway-go/headway/internal/test/memredis"
	"github.com/headway-go/headway/internal/test/testenv"
)

// TestMain runs this binary as the process that TestKilled kills, if its environment says so.
func TestMain(m *testing.M) {
	if uri := os.Getenv(killURI); uri != "" {
		kill, err := strconv.Atoi(os.Getenv(killAfter))
		if err == nil {
			err = finishLines(context.Background(), uri, os.Getenv(killDatabase), &mortal{os.Stdout, kill})
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// inRedis begins the names of tests that run on Redis, see TestInRedis.
const inRedis = "TestInRedis/"

// newDocuments returns an empty store of documents: MongoDB, or Redis in TestInRedis.
func newDocuments(tb testing.TB) documents.Store {
	tb.Helper()
	if !strings.HasPrefix(tb.Name(), inRedis) {
		return mongodocs.New(testenv.Database(tb))
	}
	return redisdocs.New(memredis.Start(tb))
}

func newStore(tb testing.TB) *batches.Store {
	tb.Helper()
	s := batches.New(newDocuments(tb), batches.Options{})
	if err := s.EnsureIndexes(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return s
}

// TestInRedis runs the tests of this package on the Redis of `headway dev`.
func TestInRedis(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T){ //nolint:paralleltest // each test calls Parallel
		"Open": TestOpen, "OpenAtOnce": TestOpenAtOnce, "UnusableNames": TestUnusableNames,
		"BatchByItsBeginning": TestBatchByItsBeginning, "List": TestList, "ProgressOfABatch": TestProgressOfABatch,
		"WhatIsKeptIsBounded": TestWhatIsKeptIsBounded, "ReopenHoldsLittle": TestReopenHoldsLittle,
		"ABatchGrows": TestABatchGrows, "ResultsThatAreTooLarge": TestResultsThatAreTooLarge,
		"CorruptDocuments": TestCorruptDocuments, "CorruptDocumentsHideNoOthers": TestCorruptDocumentsHideNoOthers,
		"Counts": TestCounts, "Counter": TestCounter, "WrittenOnce": TestWrittenOnce, "FailedResults": TestFailedResults,
		"Sizes": TestSizes, "FinishMany": TestFinishMany, "Fleet": TestFleet, "AttemptMeetsFinish": TestAttemptMeetsFinish,
		"Retention": TestRetention, "NamedRequests": TestNamedRequests, "RoundsOfOpenRequests": TestRoundsOfOpenRequests,
		"UsageByModelAndLately": TestUsageByModelAndLately, "Results": TestResults, "Trouble": TestTrouble,
		"Finished": TestFinished, "RoundTrip": TestRoundTrip, "Reopen": TestReopen,
	} {
		t.Run(name, test)
	}
}

// stored returns one document.
func stored(tb testing.TB, in documents.Store, collection, key string) documents.Document {
	tb.Helper()
	found, err := in.Collection(collection).Get(tb.Context(), []string{key}, true)
	if err != nil || len(found) != 1 {
		tb.Fatalf("%s %s: %d documents, %v", collection, key, len(found), err)
	}
	return found[key]
}

// store stores a document in place of the one with its key.
func store(tb testing.TB, in documents.Store, collection, key string, head, body any) {
	tb.Helper()
	err := documents.UpdateOne(tb.Context(), in.Collection(collection), documents.Change{
		Key: key, Apply: func(d *documents.Document) (_ bool, err error) {
			if d.Head, err = bson.Marshal(head); err == nil && body != nil {
				d.Body, err = bson.Marshal(body)
			}
			return true, err
		},
	})
	if err != nil {
		tb.Fatal(err)
	}
}

// together returns a Finish whose callers share round trips, like the callers of a worker. It also returns a function
// that waits for the round trips of cancelled callers.
func together(s *batches.Store) (finish func(context.Context, batches.Result) error, wait func()) {
	group := &coalesce.Group[struct{}, batches.Result, error]{
		Timeout: time.Hour, // a busy machine is no reason to give up
		Call: func(ctx context.Context, _ struct{}, results []batches.Result) ([]error, error) {
			return s.FinishMany(ctx, results), nil
		},
	}
	return func(ctx context.Context, r batches.Result) error {
		stored, err := group.Do(ctx, struct{}{}, r)
		return errors.Join(append(stored, err)...)
	}, group.Close
}

// own returns whether the stored result of a line is the one with this ID of its answer.
func own(ctx context.Context, s *batches.Store, line int, id string) (bool, error) {
	r, ok, err := s.Find(ctx, "b", line)
	if err == nil && !ok {
		err = fmt.Errorf("line %d has no result", line)
	}
	return err == nil && r.Response.RequestID == id, err
}

// completion returns an answer of a chat of about that length. Its words make it about as compressible as prose.
func completion(n, length int) []byte {
	var content strings.Builder
	for i := n; content.Len() < length; i++ {
		content.WriteString(words[(i*7919+i/13)%len(words)] + " ")
	}
	return fmt.Appendf(nil, `{"id":"chatcmpl-%024x","object":"chat.completion","created":%d,`+
		`"model":"gpt-4o-mini-2024-07-18",`+
		`"choices":[{"index":0,"message":{"role":"assistant","content":%q,"refusal":null,"annotations":[]},"logprobs":null,`+
		`"finish_reason":"stop"}],`+
		`"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":0,`+
		`"audio_tokens":0},`+
		`"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":0,`+
		`"rejected_prediction_tokens":0}},`+
		`"service_tier":"default","system_fingerprint":"fp_%x"}`, n*7907, 1700000000+n, content.String(), n%900, n%500,
		n%900+n%500, n%77)
}

func answered(batch string, line, length int) batches.Result {
	return batches.Result{
		Batch: batch, Line: line, CustomID: fmt.Sprintf("request-%d", line), Model: "gpt-4o-mini",
		Response: &batches.Response{
			StatusCode: 200, RequestID: fmt.Sprintf("req_%d", line),
			Body: completion(line, length),
		},
		Usage: batches.Usage{Reserved: 300, Used: 200, Prompt: 150, Completion: 50},
	}
}

func failed(batch string, line int) batches.Result {
	return batches.Result{
		Batch: batch, Line: line, CustomID: fmt.Sprintf("request-%d", line), Model: "gpt-4o-mini",
		Response: &batches.Response{
			StatusCode: 400, RequestID: fmt.Sprintf("req_%d", line),
			Body: []byte(`{"error":{"message":"no","type":"invalid_request_error","param":null,"code":null}}`),
		},
		Attempts: []batches.Attempt{{
			At: time.UnixMilli(int64(line) * 1000).UTC(), StatusCode: 400, Error: "no",
		}},
		Request: fmt.Appendf(nil, `{"model":"gpt-4o-mini","n":%d}`, line),
	}
}

var words = strings.Fields(`
comes suite sleeps permanent retry under estimated efer onvex code counts settlement promised start rule long
storetest delay reserved call being break loses came charges much iagram lateness were high conformance right
checked slack ms window state to hey new task on instead there delivery held finish stays
balance their can harges settle less named that starts hy hen tail chain egin room othing
reports enforces hours cmd efusals refunds package error several asynq usable small distance grants with atomic
begin have requests come rate down puts trip given ledgers still provider plan moves between number
really clocks waiting update deliveries which where again effect refund growing web last enqueueing database full
exact wakes goes charge did shift settled meaning waits mongostore together things round fter however note
eserved becomes nqueue ticket within graceful hat up are ettlements admitted fill top as charged refusals
worker using person leaves decides hile archive killed burst unlucky line will locally others while passes
refill at backlog share no differ take told left everybody paid stalls empty followed word nobody
asking settles may past capacity lost fleet who ithout its pending place main keeps archived nothing
hold tokens would too takes whatever words little every the spend started changes brings does ours
attempt into failed seconds learned llm be lease chat replace return stalled they per repeated clock
delivered those arrive end beside or used life has far wasted arrival struct token old not
overtakes them same why tandard leave uses before this than wait reserve scheduler key tickets anybody
violations returning nything very reaches most found balances placed forward arithmetic document xactly fixed asks
promise
order it slow more each workers missed ts never stop then when completions answers choose ith
all eadway allowed whose without writes enough woken ero deferral lasts he in from along by
lose meanwhile go limits first eturning settlements updates plain commands contract back travel script decision buckets
times ends execution ahead limited ake been background another enqueue newer behind day once newcomers crash
pipeline well ups other lines handler ow payload set ne about headers survives hift make kills
tells taken was now holds machines ask later different none missing carries middleware imports accepted whole
served put your tried here of un minute judge two store net demo against earliest memory
correction count process sorted okens only own retries forwarder archives longer waker second max how tell
`)
