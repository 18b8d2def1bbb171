"""Asks a lake's files questions, as somebody would who knows nothing of Sallyport: one line of JSON for each of the statements on stdin."""
import json
import sys

from pyspark.sql import SparkSession

lake = sys.argv[1]
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.sql.warehouse.dir", sys.argv[2])
    .getOrCreate()
)
spark.read.option("basePath", lake).parquet(lake + "/region=*").createOrReplaceTempView("events")
for statement in sys.stdin:
    rows = [[None if cell is None else str(cell) for cell in row] for row in spark.sql(statement).collect()]
    print(json.dumps(rows), flush=True)
spark.stop()
