# The data plane: the agent, the pinned stock Envoy and iptables. From the repository's root:
#   docker build -f chart/images/sallyport-proxy.Dockerfile --build-arg VERSION=v0.1.0 -t sallyport-proxy:v0.1.0 .
FROM golang:1.26-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends python3-pip && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY e2e/tools e2e/tools
RUN e2e/tools/envoy && install -D -m 0755 bin/envoy /out/usr/local/bin/envoy
COPY . .
ARG VERSION=unknown
RUN CGO_ENABLED=0 go build -trimpath -tags grpcnotrace -ldflags "-s -w -X main.version=${VERSION}" -o /out/usr/local/bin/sallyport-agent ./cmd/sallyport-agent

FROM debian:12-slim
# iptables for the init step; the system's roots are what the gateway trusts when it originates TLS.
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates iptables \
 && rm -rf /var/lib/apt/lists/* \
 && groupadd --gid 1337 istio-proxy \
 && useradd --uid 1337 --gid 1337 --no-create-home --shell /usr/sbin/nologin istio-proxy \
 && install -d -o 1337 -g 1337 /var/run/sallyport
COPY --from=build /out /
USER 1337:1337
ENTRYPOINT ["/usr/local/bin/sallyport-agent"]
