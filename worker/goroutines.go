package worker

// goroutines run one function after the other. A new goroutine copies its stack several times on its way into a
// handler; a goroutine that is used again has its stack. The zero value uses none again.
type goroutines struct {
	next chan func()     // unbuffered: an idle goroutine receives
	stop <-chan struct{} // closed when idle goroutines have to end
}

// run runs work in an idle goroutine, or in a new one. It never blocks.
func (g goroutines) run(work func()) {
	select {
	case g.next <- work:
	default:
		go g.serve(work)
	}
}

func (g goroutines) serve(work func()) {
	work()
	for g.next != nil {
		select {
		case work = <-g.next:
			work()
		case <-g.stop:
			return
		}
	}
}
