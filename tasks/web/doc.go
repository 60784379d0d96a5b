// Package web is a ready-made task type for HTTP requests of any kind: a method, a URL, headers and a body, with charges of its own.
//
// # What a worker may call
//
// Whoever can enqueue a task decides what a worker calls, and a worker often stands where others may not call. So [Config.AllowHosts] lists
// the hosts, and nothing else is called: not localhost, not an address of the same network, not where an answer redirects to. The names are
// trusted: a listed name is called wherever it resolves to.
//
// # Secrets
//
// A payload holds none: it lies in Redis as it is. The value of a header may say ${NAME} instead, and the worker fills
// it in when it calls, for the names that Config.Secrets lists. A secret is sent only to the hosts that are listed
// beside it, and over http only where the listing says http. Neither an error nor an answer holds the value of a
// secret: where a service repeats it, in any case of letters or escaped as in JSON, URLs or HTML, "***" stands in its
// place. Values of fewer than 6 bytes, other encodings and parts of a value are not found.
//
// # Answers
//
// A status of 2xx is an answer, or one of [Request].OK where it lists some. All else is an *[Error]: one that no retry mends is
// permanent as in package tasks, and a 429 or 503 with Retry-After is a [tasks.RetryAfterError], so that nobody of the fleet calls before
// that. Redirects are not followed: each call takes one charge. An answer above [Config.MaxBody] is a permanent failure.
//
// # Not promised
//
// That a call is made only once: a worker that dies after it makes it again. Use an idempotency key where that matters.
package web
