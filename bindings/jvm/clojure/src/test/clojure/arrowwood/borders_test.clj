(ns arrowwood.borders-test
  "Tests Clojure's columns of docs/borders.md: each value of the matrix is read, written and appended unchanged, or refused
  with the documented message."
  (:require
   [arrowwood.canonical-json :refer [encode-rows]]
   [arrowwood.core :as aw]
   [arrowwood.programs :as programs]
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is]])
  (:import
   (java.io File)))

(defn- samples-script ^File []
  (io/file (System/getProperty "arrowwood.docs") "../tests/python/borders/samples.py"))

(defn- write-and-open [ds target]
  (aw/write ds target {:format :stream :compression :zstd})
  (aw/write ds target)
  (aw/open target))

(defn- append-and-open [table target rows]
  (with-open [writer (aw/writer target (.schema (aw/java-dataset table)))]
    (aw/append! writer rows)
    (aw/commit! writer))
  (aw/open target))

(def ^:private crossings
  "Functions that take a dataset across each border, and return what arrives."
  {"Clojure open" (fn [ds _target _table] ds)
   "Clojure write" (fn [ds target _table] (write-and-open ds target))
   "Clojure append" (fn [ds target table] (append-and-open table target ds))
   "Clojure rows" (fn [ds target _table] (append-and-open ds target (seq ds)))})

(defn- find-failure
  "Describes how the result of a crossing differs from the page; returns nil if it doesn't."
  [border cross {:strs [type rows refused]} ds table]
  (let [refusal (get refused border)
        target (io/file (programs/temp-folder) "x")]
    (try
      (let [actual (encode-rows (cross ds target table))]
        (cond
          refusal (str border ", " type ": taken, though listed as refused: " refusal)
          (not= rows actual) (str border ", " type ": expected " rows ", got " actual)))
      (catch Exception e
        (when-not (and refusal (str/includes? (str (ex-message e)) refusal))
          (str border ", " type ": expected " refusal ", refused: " e))))))

(defn- find-failures [folder samples]
  (for [[file-name sample] samples
        [border cross] crossings
        :let [ds (aw/open (io/file folder file-name))
              table-name (get sample "table")
              table (if table-name (aw/open (io/file folder table-name)) ds)
              failure (find-failure border cross sample ds table)]
        :when failure]
    failure))

(deftest values-cross-borders-unchanged-or-are-refused
  (if-let [python (programs/python)]
    (let [folder (programs/temp-folder)]
      (programs/run python (.getCanonicalPath (samples-script)) folder)
      (let [samples (programs/parse-json (slurp (io/file folder "expected.json")))]
        (is (< 150 (count samples)))
        (is (= [] (vec (find-failures folder samples))))))
    (is (nil? (println "test-jvm: there is no Python with Arrowwood here")))))
