// Package inside lets a type of a public package show its inside to Headway's own packages: what they need of it and
// users do not. So the public method sets stay small, and no internal type is in a public signature.
//
//	type Limiter struct {
//		holder // = inside.Holder[*starter]
//	}
//
//	inside.Of(limiter).Release(ctx, charge) // of a *starter
package inside

// Holder holds the inside of a type that embeds it, by a name that is not exported. Such a type has no further method
// that users see: see Of.
type Holder[T any] struct{ held T }

// Hold returns the Holder of an inside.
func Hold[T any](held T) Holder[T] { return Holder[T]{held: held} }

func (h Holder[T]) inside() T { return h.held }

// Of returns the inside of a value whose type embeds its Holder.
func Of[T any](owner interface{ inside() T }) T { return owner.inside() }
