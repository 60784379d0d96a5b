# A small image with the command: a static binary, no shell, no root.
# GO_DIGEST pins the base image: --build-arg GO_DIGEST=@sha256:...
ARG GO_DIGEST=
FROM golang:1.26${GO_DIGEST} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags='-s -w' -o /out/ ./cmd/headway && \
    scripts/licences >/out/THIRD_PARTY_LICENCES && mkdir -p /files/headway

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/headway /out/THIRD_PARTY_LICENCES /src/LICENSE /
# A new volume there takes over the owner: it is for gateways with --files /var/lib/headway.
COPY --from=build --chown=65532:65532 /files /var/lib
USER 65532:65532
ENTRYPOINT ["/headway"]
CMD ["worker", "--config", "/etc/headway/headway.yaml"]
