(ns arrowwood.tmd-test
  "arrowwood.tmd beside what Arrowwood itself reads, and beside tech.ml.dataset's own reader."
  (:require
   [arrowwood.core :as aw]
   [arrowwood.programs :as programs]
   [arrowwood.tmd :as tmd]
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [tech.v3.dataset :as ds]
   [tech.v3.datatype :as dtype]
   [tech.v3.datatype.functional :as dfn]
   [tech.v3.libs.arrow :as arrow])
  (:import
   (java.time Instant LocalDateTime ZoneOffset)
   (tech.v3.datatype.native_buffer NativeBuffer)))

(def ^:private samples
  (delay (let [folder (programs/folder)]
           (programs/run (programs/samples) "write" folder)
           {:folder folder :expected (programs/json (slurp (io/file folder "expected.json")))})))

(defn- same? [one other]
  (cond
    (and (bytes? one) (bytes? other)) (java.util.Arrays/equals ^bytes one ^bytes other)
    (and (sequential? one) (sequential? other)) (and (= (count one) (count other)) (every? true? (map same? one other)))
    (and (map? one) (map? other)) (and (= (keys one) (keys other)) (every? true? (map same? (vals one) (vals other))))
    ;; tech.ml.dataset has no timestamps without a time zone.
    (and (instance? LocalDateTime one) (instance? Instant other)) (= (.toInstant ^LocalDateTime one ZoneOffset/UTC) other)
    (and (float? one) (float? other)) (or (== one other) (and (Double/isNaN one) (Double/isNaN other)))
    ;; dtype-next reads unsigned integers of 64 bits as signed ones.
    (and (number? one) (number? other)) (or (== one other) (= (str one) (Long/toUnsignedString other)))
    :else (= one other)))

(deftest samples-are-the-same-datasets
  (let [{:keys [folder expected]} @samples]
    (doseq [name (keys expected)
            :let [ours (aw/open (io/file folder name))]
            :when (and (pos? (count (aw/schema ours))) (apply distinct? nil (map :name (aw/schema ours))))
            :let [theirs (tmd/->dataset ours)]]
      (is (= (aw/row-count ours) (ds/row-count theirs)) name)
      (doseq [{column :name type :type} (aw/schema ours)
              ;; Counts of units that java.time can't hold are no values of a packed datatype.
              :when (not (and (re-find #"^(date|time|timestamp)" type) (some int? (aw/column ours column))))]
        (let [values (mapv identity (aw/column ours column))
              got (theirs (subs (str column) 1))]
          (is (every? true? (map same? values (mapv #(nth got %) (range (count values)))))
              (str name " " column " " type ": " (pr-str values) " but " (pr-str (vec got))))
          (is (= (keep-indexed #(when (nil? %2) %1) values) (vec (ds/missing got))) (str name " " column " " type)))))))

(defn- stocks []
  (let [folder (programs/folder) file (io/file folder "stocks.arrows") csv (io/file folder "stocks.csv")]
    (spit csv (str "symbol,date,n,price\n"
                   (str/join (for [i (range 1000)]
                               (str (["IBM" "AAPL" "MSFT"] (mod i 3)) ",2000-01-" (format "%02d" (inc (mod i 28))) "," i ","
                                    (if (zero? (mod i 7)) "" (* 0.25 i)) "\n")))))
    (aw/write (aw/read-csv csv {:dictionary [:symbol]}) file {:format :stream})
    file))

(deftest a-stream-is-what-tech-ml-dataset-reads-itself
  (let [file (stocks) ours (tmd/->dataset file)
        theirs (arrow/stream->dataset (str file) {:open-type :mmap})]
    (is (= (map ours (ds/column-names ours)) (map theirs (ds/column-names theirs))))
    (is (= (map (comp :datatype meta) (ds/columns ours)) (map (comp :datatype meta) (ds/columns theirs))))
    (is (= (pr-str (aw/open file)) (str ours)))))

(deftest columns-are-where-the-file-is
  (let [file (stocks) ours (aw/open file) theirs (tmd/->dataset ours {:key-fn keyword})]
    (doseq [column [:n :date]]
      (let [^NativeBuffer buffer (dtype/as-native-buffer (theirs column))]
        (is (= (.address buffer) (.address (.values ^dev.arrowwood.Chunk (first (aw/chunks (ours column)))))) column)))
    (is (= (aw/sum (ours :price)) (dfn/sum (ds/drop-missing (theirs :price)))))
    (is (= (count (remove nil? (ours :price))) (ds/row-count (ds/drop-missing theirs :price))))))

(deftest batches-and-tables-become-one-column
  (let [table (io/file (programs/folder) "ticks")]
    (with-open [writer (aw/writer table {:symbol :utf8 :n :int64} {:dictionary [:symbol] :segment-rows 100})]
      (dotimes [n 1000]
        (aw/append! writer {:symbol (when (pos? (mod n 5)) (str "S" (quot n 50))) :n n})
        (when (zero? (mod n 90)) (aw/commit! writer)))
      (aw/commit! writer))
    (let [ours (aw/open table) theirs (tmd/->dataset ours {:key-fn keyword})]
      (is (< 1 (aw/batch-count ours)))
      (is (= (vec (:symbol ours)) (vec (theirs :symbol))))
      (is (= (range 1000) (vec (theirs :n))))
      (is (= 200 (dtype/ecount (ds/missing (theirs :symbol))))))))

(deftest the-collector-owns-the-memory
  (let [file (stocks)
        theirs (with-open [ours (aw/open file {:arena :confined})] (tmd/->dataset ours))]
    (dotimes [_ 5] (System/gc))
    (is (= 499500 (long (dfn/sum (theirs "n")))) "the arena is closed, the memory is not")
    (is (= 0 (ds/row-count (tmd/->dataset (aw/head (aw/open file) 0)))))))

(deftest a-dataset-is-appended-as-its-rows
  (let [theirs (tmd/->dataset (stocks)) table (io/file (programs/folder) "table")]
    (with-open [writer (aw/writer table {:symbol :utf8 :date :date32 :n :int64 :price :float64})]
      (aw/commit! (aw/append! writer (ds/mapseq-reader theirs))))
    (is (= (seq (aw/open table)) (map #(update-keys % keyword) (seq (aw/open (stocks))))))))

(deftest unknown-options-are-refused
  (is (thrown-with-msg? IllegalArgumentException #"has no option :key-fun, perhaps it is :key-fn;"
                        (tmd/->dataset "nowhere.arrow" {:key-fun keyword}))))
