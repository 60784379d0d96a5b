# A small image with both commands: static binaries, no shell, no root.
# GO_DIGEST pins the base image: --build-arg GO_DIGEST=@sha256:...
ARG GO_DIGEST=
FROM golang:1.26${GO_DIGEST} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags='-s -w' -o /out/ ./cmd/worker ./cmd/enqueue && \
    scripts/licences >/out/THIRD_PARTY_LICENCES

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/worker /out/enqueue /out/THIRD_PARTY_LICENCES /src/LICENSE /
USER 65532:65532
ENTRYPOINT ["/worker"]
CMD ["run", "--config", "/etc/headway/headway.yaml"]
