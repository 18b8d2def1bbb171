"""Asks a table questions by Spark and Iceberg's own library: one line of JSON for each of the statements on stdin. Usage: spark.py CATALOG RUNTIME.JAR FOLDER"""
import json
import sys

from pyspark.sql import SparkSession

settings = {
    "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2", "spark.sql.warehouse.dir": sys.argv[3], "spark.jars": sys.argv[2],
    "spark.sql.catalog.c": "org.apache.iceberg.spark.SparkCatalog", "spark.sql.catalog.c.type": "rest", "spark.sql.catalog.c.uri": sys.argv[1],
    "spark.sql.catalog.c.io-impl": "org.apache.iceberg.hadoop.HadoopFileIO", "spark.sql.catalog.c.rest-metrics-reporting-enabled": "false",
}
builder = SparkSession.builder.master("local[2]")
for key, value in settings.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
spark.sql("USE c.security")
for statement in sys.stdin:
    print(json.dumps([[None if cell is None else str(cell) for cell in row] for row in spark.sql(statement).collect()]), flush=True)
spark.stop()
