#!/bin/sh
# Runs a Spark executor if Spark has started the container, otherwise the command of the container.
# Spark passes the address of the driver and the size of the executor in the environment.
set -eu

if [ "${1:-}" != executor ]; then
    exec tini -- "$@"
fi

spark=$(python -c 'import pathlib, pyspark; print(pathlib.Path(pyspark.__file__).parent)')

# Options for Java are in SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1 and so on.
set --
number=0
while eval "option=\${SPARK_JAVA_OPT_$number-}" && [ -n "$option" ]; do
    set -- "$@" "$option"
    number=$((number + 1))
done

exec tini -- java "$@" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
    -cp "${SPARK_CONF_DIR:-/opt/spark/conf}:$spark/jars/*" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" \
    --executor-id "$SPARK_EXECUTOR_ID" \
    --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" \
    --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
    --podName "$SPARK_EXECUTOR_POD_NAME"
