# The node guard: one static binary. From the repository's root:
#   docker build -f chart/images/sallyport-node.Dockerfile --build-arg VERSION=v0.1.0 -t sallyport-node:v0.1.0 .
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=unknown
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/sallyport-node ./cmd/sallyport-node

# It writes the node's nftables rules, which takes root with NET_ADMIN; the chart drops everything else.
FROM scratch
COPY --from=build /out/sallyport-node /sallyport-node
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
USER 0:0
ENTRYPOINT ["/sallyport-node"]
