module github.com/headway-go/headway/bench

go 1.26.0

replace github.com/headway-go/headway => ../

require go.mongodb.org/mongo-driver/v2 v2.9.3

require go.uber.org/goleak v1.3.0

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/go-redis/redis_rate/v10 v10.0.1
	github.com/google/uuid v1.6.0 // indirect
	github.com/headway-go/headway v0.0.0-00010101000000-000000000000
	github.com/hibiken/asynq v0.26.0
	github.com/klauspost/compress v1.19.2 // indirect
	github.com/redis/go-redis/v9 v9.23.0
	github.com/robfig/cron/v3 v3.0.1 // indirect
	github.com/spf13/cast v1.10.0 // indirect
	github.com/xdg-go/pbkdf2 v1.0.0 // indirect
	github.com/xdg-go/scram v1.2.0 // indirect
	github.com/xdg-go/stringprep v1.0.4 // indirect
	github.com/youmark/pkcs8 v0.0.0-20240726163527-a2c0da244d78 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/crypto v0.57.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	golang.org/x/time v0.14.0
	google.golang.org/protobuf v1.36.10 // indirect
)
