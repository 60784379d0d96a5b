package report

import (
	"fmt"
	"math"

	"gonum.org/v1/plot"
)

// round returns four to ten marks at round numbers.
func round(from, to float64) []plot.Tick {
	step := math.Pow(10, math.Floor(math.Log10(to-from)))
	for _, finer := range []float64{5, 2, 1} {
		if (to-from)/(step/finer) <= 10 {
			step /= finer
			break
		}
	}
	var ticks []plot.Tick
	for value := math.Ceil(from/step) * step; value <= to; value += step {
		ticks = append(ticks, plot.Tick{Value: value, Label: fmt.Sprintf("%.6g", value)})
	}
	return ticks
}

// decades returns the marks of a logarithmic axis.
func decades() plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for _, n := range []float64{1, 2, 5, 10, 20, 50, 100, 200, 500} {
		ticks = append(ticks, plot.Tick{Value: math.Log10(n), Label: fmt.Sprint(n)})
	}
	return ticks
}
