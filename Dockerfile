# An image with Tidemill, Python and Java, built from this repository:
#     docker build --tag tidemill .
#     docker run --rm tidemill doctor
# EXTRAS selects what is installed, for example --build-arg EXTRAS=all. For Kubernetes see examples/kubernetes.
FROM python:3.12-slim-bookworm AS build
WORKDIR /source
COPY pyproject.toml setup.py MANIFEST.in README.md LICENSE CHANGELOG.md requirements.lock ./
COPY src/ src/
COPY tools/image.sh tools/image.sh
ARG EXTRAS=ops,spark
RUN tools/image.sh build /opt/wheels
RUN tools/image.sh install /opt/wheels /opt/tidemill

FROM python:3.12-slim-bookworm
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/tidemill /opt/tidemill
ENV PATH=/opt/tidemill/bin:$PATH
RUN useradd --uid 1000 --create-home tidemill
USER 1000
WORKDIR /home/tidemill
ENTRYPOINT ["tidemill"]
CMD ["--help"]
