(ns arrowwood.runner
  "Runs single tests of a namespace, for JUnit."
  (:require
   [clojure.test :as test])
  (:import
   (java.io StringWriter)))

(defn test-names
  "Returns the names of the tests of a namespace, in order."
  [namespace]
  (let [test-vars (filter (comp :test meta val) (ns-publics (symbol namespace)))]
    (vec (sort (map (comp str key) test-vars)))))

(defn run-test
  "Runs a test; returns its failures as text, or nil. A test without assertions fails."
  [namespace name]
  (let [out (StringWriter.)
        counts (binding [test/*test-out* out
                         test/*report-counters* (ref test/*initial-report-counters*)]
                 (test/test-vars [(resolve (symbol namespace name))])
                 @test/*report-counters*)]
    (cond
      (pos? (+ (:fail counts 0) (:error counts 0))) (str out)
      (zero? (:pass counts 0)) "nothing was checked")))
