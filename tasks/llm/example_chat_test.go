package llm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/tasks/llm"
)

// A chat is charged for its largest usage, and settled for its real one. Call Run in a worker's handler, with job.Use
// and job.Observe.
func Example() {
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w,
			`{"choices":[{"message":{"content":"A gap."}}],"usage":{"prompt_tokens":11,"completion_tokens":3,`+
				`"total_tokens":14}}`)
	}))
	defer provider.Close()
	client, err := llm.NewClient(llm.Config{BaseURL: provider.URL + "/v1", APIKey: "sk-example"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	chat, err := llm.NewCall(llm.EndpointChat, "openai",
		json.RawMessage(`{"model":"small","max_tokens":200,"messages":[{"role":"user","content":"What is headway?"}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("charged", chat.Taken[0].Tokens)
	answer, err := client.Run(context.Background(), chat, func(used reservations.Tokens) { fmt.Println("used", used) })
	fmt.Println(string(answer.Body[:46]), err)
	// Output:
	// charged map[requests:1 tokens:211]
	// used map[tokens:14]
	// {"choices":[{"message":{"content":"A gap."}}], <nil>
}

// An error shows what to do next: it is permanent if a retry cannot fix it, and a refusal names the time to wait.
func ExampleError() {
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "2")
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprint(w, `{"error":{"message":"slow down","code":"rate_limit_exceeded"}}`)
	}))
	defer provider.Close()
	client, err := llm.NewClient(llm.Config{BaseURL: provider.URL + "/v1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	_, err = client.Run(context.Background(),
		llm.Call{Request: json.RawMessage(`{"messages":[{"role":"user","content":"hi"}]}`)}, nil)
	fmt.Println(err)
	if failed, ok := errors.AsType[*llm.Error](err); ok {
		fmt.Println(failed.StatusCode, failed.RetryAfter, errors.Is(err, tasks.ErrPermanent))
	}
	// Output:
	// chat completion: 429 Too Many Requests: rate_limit_exceeded: slow down (retry after 2s)
	// 429 2s false
}
