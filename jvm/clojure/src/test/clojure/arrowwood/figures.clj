(ns arrowwood.figures
  "What a tech.ml.dataset over Arrowwood costs, beside tech.ml.dataset's own reader of mapped streams: `figures FOLDER`, where
  bench/src/bin/calls.rs has made the data. Prints a line for each: name, the least and the median nanoseconds."
  (:require
   [arrowwood.core :as aw]
   [arrowwood.tmd :as tmd]
   [clojure.java.io :as io]
   [tech.v3.dataset :as ds]
   [tech.v3.datatype.functional :as dfn]
   [tech.v3.libs.arrow :as arrow]
   [tech.v3.resource :as resource]))

(set! *warn-on-reflection* true)

(defn- time-rounds
  "Times each of so many rounds, after as many as it takes to be compiled."
  [name warm rounds work]
  (dotimes [_ warm] (work))
  (let [taken (long-array rounds)]
    (dotimes [i rounds]
      (let [start (System/nanoTime)]
        (work)
        (aset taken i (- (System/nanoTime) start))))
    (java.util.Arrays/sort taken)
    (println (str name "\t" (aget taken 0) "\t" (aget taken (quot (long rounds) 2))))))

(defn- mapped [file work]
  (resource/stack-resource-context (work (arrow/stream->dataset file {:open-type :mmap}))))

(defn -main [folder]
  (let [file (str (io/file folder "one.stream"))]
    (time-rounds "tech.ml.dataset over ours: load" 300 500 #(ds/row-count (tmd/->dataset file)))
    (time-rounds "tech.ml.dataset, mapped: load" 20 40 #(mapped file ds/row-count))
    (time-rounds "tech.ml.dataset over ours: first row" 300 500 #(first (ds/mapseq-reader (tmd/->dataset file))))
    (time-rounds "tech.ml.dataset, mapped: first row" 20 40 #(mapped file (comp first ds/mapseq-reader)))
    (time-rounds "tech.ml.dataset over ours: dfn/sum" 10 30 #(dfn/sum ((tmd/->dataset file) "price")))
    (time-rounds "tech.ml.dataset, mapped: dfn/sum" 10 30 #(mapped file (fn [d] (dfn/sum (d "price")))))
    (time-rounds "Clojure: open + aw/sum" 20 60 #(aw/sum ((aw/open file) :price)))
    (time-rounds "Clojure: open + map-reduce" 20 60
                 #(aw/map-reduce ((aw/open file) :price)
                                 (fn [part] (reduce (fn ^double [^double a ^double b] (+ a b)) 0.0 part))
                                 +)))
  (shutdown-agents))
