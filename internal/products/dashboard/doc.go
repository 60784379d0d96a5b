// Package dashboard is the page that shows a fleet: what is stuck and why, limits with their waitlists, the path of one
// task, batches, dead tasks and queues. `headway dashboard`, `headway dev` and `headway demo --ui` serve it.
//
// The page is read-only unless Config.AllowChanges is set. It works without JavaScript; a script of 60 lines keeps it
// live by server-sent events. It loads nothing from elsewhere, and its content security policy allows only its own
// style sheet and script.
//
// Every byte of a page passes two filters after its template: characters that a browser would obey instead of show
// become visible escapes, and the values of secrets become ***.
package dashboard
