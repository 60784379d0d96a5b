// Package storetest is the conformance suite that every [reservations.Store] has to pass. It needs the standard library
// only.
//
//	func TestConformance(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) storetest.Instance {
//			clock := storetest.NewClock()
//			store := mystore.New(clock.Now)
//			return storetest.Instance{Store: store, Advance: clock.Advance}
//		})
//	}
//
//	func TestConformanceLive(t *testing.T) {
//		storetest.RunLive(t, func(t *testing.T) storetest.Instance { return storetest.Instance{Store: mystore.New(nil)} })
//	}
//
// [Run] needs a store whose clock the test sets; among its cases is a model check, which compares random sequences of
// requests with [bucket.Step]. [Replay] compares a store with recordings of another rate limiter. [RunLive] runs
// what needs the store's own clock. Each case asks for an instance of its own, so instances must not share buckets.
// What a store does when its database goes away is for its own tests.
package storetest
