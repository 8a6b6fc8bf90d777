# An image with the command gluino and the libraries: docker build -t gluino . && docker run --rm -v $PWD:/data gluino inspect /data/net
FROM debian:12 AS build
COPY . /gluino
WORKDIR /gluino
RUN apt-get update && apt-get install -y --no-install-recommends make && make deb

FROM debian:12
COPY --from=build /gluino/build/packages/gluino_*.deb /tmp/
RUN apt-get update && apt-get install -y --no-install-recommends /tmp/gluino_*.deb && rm -rf /tmp/*.deb /var/lib/apt/lists/*
ENV OMP_WAIT_POLICY=passive
ENTRYPOINT ["gluino"]
