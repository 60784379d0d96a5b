-- load returns the epoch, the clock and the stored bucket, as one string; then 0.
return {epoch .. now .. stored, 0}
