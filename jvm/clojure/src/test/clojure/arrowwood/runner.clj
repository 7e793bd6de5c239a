(ns arrowwood.runner
  "Tests of a namespace one by one."
  (:require
   [clojure.test :as test])
  (:import
   (java.io StringWriter)))

(defn names
  "The names of the tests of a namespace."
  [namespace]
  (->> (ns-publics (symbol namespace)) (filter #(:test (meta (val %)))) (mapv (comp str key)) sort vec))

(defn run
  "Runs a test; returns what failed as text, or nil."
  [namespace name]
  (let [out (StringWriter.)
        counts (binding [test/*test-out* out
                         test/*report-counters* (ref test/*initial-report-counters*)]
                 (test/test-vars [(resolve (symbol namespace name))])
                 @test/*report-counters*)]
    (cond
      (pos? (+ (:fail counts 0) (:error counts 0))) (str out)
      (zero? (:pass counts 0)) "nothing was checked")))
