(ns arrowwood.figures
  "Benchmarks of tech.ml.dataset over Arrowwood, beside tech.ml.dataset's own reader of mapped streams: `figures FOLDER`,
  where bench/src/bin/calls.rs has written the data to the folder. Prints a line for each: its name, the minimum and the
  median in nanoseconds."
  (:require
   [arrowwood.core :as aw]
   [arrowwood.tmd :as tmd]
   [clojure.java.io :as io]
   [tech.v3.dataset :as ds]
   [tech.v3.datatype.functional :as dfn]
   [tech.v3.libs.arrow :as arrow]
   [tech.v3.resource :as resource])
  (:import
   (java.util Arrays)))

(set! *warn-on-reflection* true)

(defn- measure
  "Measures each of some rounds, after others that have the code compiled."
  [name warm-up-rounds rounds task]
  (dotimes [_ warm-up-rounds] (task))
  (let [nanos (long-array rounds)]
    (dotimes [i rounds]
      (let [start (System/nanoTime)]
        (task)
        (aset nanos i (- (System/nanoTime) start))))
    (Arrays/sort nanos)
    (println (str name "\t" (aget nanos 0) "\t" (aget nanos (quot (long rounds) 2))))))

(defn- read-mapped
  "Calls a function with the dataset that tech.ml.dataset itself reads, and unmaps it."
  [file read]
  (resource/stack-resource-context (read (arrow/stream->dataset file {:open-type :mmap}))))

(defn- sum-primitives [part]
  (reduce (fn ^double [^double a ^double b] (+ a b)) 0.0 part))

(defn -main [folder]
  (let [file (str (io/file folder "one.stream"))]
    (measure "tech.ml.dataset over ours: load" 300 500 #(ds/row-count (tmd/->dataset file)))
    (measure "tech.ml.dataset, mapped: load" 20 40 #(read-mapped file ds/row-count))
    (measure "tech.ml.dataset over ours: first row" 300 500 #(first (ds/mapseq-reader (tmd/->dataset file))))
    (measure "tech.ml.dataset, mapped: first row" 20 40 #(read-mapped file (comp first ds/mapseq-reader)))
    (measure "tech.ml.dataset over ours: dfn/sum" 10 30 #(dfn/sum ((tmd/->dataset file) "price")))
    (measure "tech.ml.dataset, mapped: dfn/sum" 10 30 #(read-mapped file (fn [dataset] (dfn/sum (dataset "price")))))
    (measure "Clojure: open + aw/sum" 20 60 #(aw/sum ((aw/open file) :price)))
    (measure "Clojure: open + map-reduce" 20 60 #(aw/map-reduce ((aw/open file) :price) sum-primitives +)))
  (shutdown-agents))
