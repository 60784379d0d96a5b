// Package web is a ready-made task type for HTTP requests of any kind: a method, a URL, headers, a body and charges.
//
//	client, err := web.NewClient(web.Config{AllowHosts: []string{"api.example.com"}})
//	worker.Handle(w, func(ctx context.Context, job *worker.Job[web.Request]) error {
//		answer, err := client.Run(ctx, job.Args, job.Use)
//		...
//	})
//	s.Enqueue(ctx, web.Request{URL: "https://api.example.com/v1/items"})
//
// # What a worker may call
//
// A program that can enqueue a task decides which URL a worker calls. A worker often runs in a private network. So a
// worker only calls the hosts of [Config.AllowHosts]: no localhost, no address of its own network, no target of a
// redirect. Listed names are trusted: a worker calls any address that such a name resolves to.
//
// # Secrets
//
// Redis stores payloads unchanged, so put no secrets into them. The value of a header may contain ${NAME} instead,
// for a name in Config.Secrets. The worker replaces it when it calls. It sends a secret only to the hosts listed for
// the secret, and over http only if the list says http. No error or answer contains the value of a secret. If a
// service repeats it, in any letter case or escaped as in JSON, URLs or HTML, "***" replaces it. Values of fewer than
// 6 bytes, other encodings and parts of a value are not found.
//
// # Answers
//
// A status of 2xx is an answer, or one of [Request].OK if that is set. Any other status is an *[Error]. The error is
// permanent, as in package tasks, if a retry cannot fix it. A refusal is a [reservations.RetryAfterError], so that no
// worker of the fleet calls before its time; [Config.Providers] says of which limits. A 402, 429, 498, 503 and 529
// is a refusal; a 403, 404, 408, 409, 423, 424, 425, 502 and 504 is one only with a time. The time is in Retry-After or
// its kin; for a 429, and for a 403 that says that nothing is left, also in a header such as X-Ratelimit-Reset.
// Redirects are not followed: each call takes one charge. An answer above [Config.MaxBody] is a permanent failure.
//
// # Not promised
//
// A call may be made twice: if a worker dies after its call, another worker repeats it. Use an idempotency key if
// that matters.
package web
