(ns arrowwood.borders-test
  "Clojure's columns of docs/borders.md: each value of the matrix is read, written and appended, or refused as the page says."
  (:require
   [arrowwood.core :as aw]
   [arrowwood.programs :as programs]
   [arrowwood.types-test :refer [by-rows]]
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]))

(def ^:private matrix (io/file (System/getProperty "arrowwood.docs") "../tests/python/borders/samples.py"))

(defn- written [ds target]
  (aw/write ds target {:format :stream :compression :zstd})
  (aw/write ds target)
  (aw/open target))

(defn- appended [table target rows]
  (with-open [writer (aw/writer target (.schema (aw/java-dataset table)))]
    (aw/append! writer rows)
    (aw/commit! writer))
  (aw/open target))

(def ^:private ways
  {"Clojure open" (fn [ds _ _] ds)
   "Clojure write" (fn [ds target _] (written ds target))
   "Clojure append" (fn [ds target table] (appended table target ds))
   "Clojure rows" (fn [ds target _] (appended ds target (seq ds)))})

(defn- wrong
  "What is not as the page says, or nil."
  [border way {:strs [type rows refused]} ds table]
  (let [message (get refused border)
        target (io/file (programs/folder) "x")]
    (try
      (let [found (by-rows (way ds target table))]
        (cond
          message (str border ", " type ": taken, though listed as refused: " message)
          (not= rows found) (str border ", " type ": expected " rows ", got " found)))
      (catch Exception e
        (when-not (and message (str/includes? (str (ex-message e)) message))
          (str border ", " type ": expected " message ", refused: " e))))))

(deftest values-are-the-same-behind-the-border-or-refused
  (if-let [python (programs/python)]
    (let [folder (programs/folder)]
      (programs/run python (.getCanonicalPath ^java.io.File matrix) folder)
      (let [expected (programs/json (slurp (io/file folder "expected.json")))]
        (is (< 150 (count expected)))
        (is (= [] (vec (for [[name sample] expected
                             [border way] ways
                             :let [ds (aw/open (io/file folder name))
                                   table (if-let [other (get sample "table")] (aw/open (io/file folder other)) ds)
                                   problem (wrong border way sample ds table)]
                             :when problem]
                         problem))))))
    (is (nil? (println "test-jvm: there is no Python with Arrowwood here")))))
