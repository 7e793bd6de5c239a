(ns arrowwood.tmd-test
  "Tests datasets of tech.ml.dataset over Arrowwood, compared with what Arrowwood reads and with tech.ml.dataset's own
  reader of Arrow streams."
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
   (dev.arrowwood Chunk)
   (java.time Instant LocalDateTime ZoneOffset)
   (java.util Arrays)
   (tech.v3.datatype.native_buffer NativeBuffer)))

(def ^:private samples
  "A folder of sample files, and the rows and type of each by its name."
  (delay (let [folder (programs/temp-folder)]
           (programs/run (programs/samples-program) "write" folder)
           {:folder folder
            :expected (programs/parse-json (slurp (io/file folder "expected.json")))})))

(defn- same-value?
  "Returns true if a value of Arrowwood and one of tech.ml.dataset are the same."
  [expected actual]
  (cond
    (and (bytes? expected) (bytes? actual))
    (Arrays/equals ^bytes expected ^bytes actual)

    (and (sequential? expected) (sequential? actual))
    (and (= (count expected) (count actual))
         (every? true? (map same-value? expected actual)))

    (and (map? expected) (map? actual))
    (and (= (keys expected) (keys actual))
         (every? true? (map same-value? (vals expected) (vals actual))))

    ;; tech.ml.dataset has no timestamps without a time zone.
    (and (instance? LocalDateTime expected) (instance? Instant actual))
    (= (.toInstant ^LocalDateTime expected ZoneOffset/UTC) actual)

    (and (float? expected) (float? actual))
    (or (== expected actual)
        (and (Double/isNaN expected) (Double/isNaN actual)))

    ;; dtype-next reads unsigned integers of 64 bits as signed ones.
    (and (number? expected) (number? actual))
    (or (== expected actual)
        (= (str expected) (Long/toUnsignedString actual)))

    :else (= expected actual)))

(defn- has-packed-counts?
  "Returns true if a column has times that java.time can't represent. They are counts of a unit, which tech.ml.dataset's
  packed datatypes don't have."
  [ds {:keys [name type]}]
  (and (re-find #"^(date|time|timestamp)" type)
       (some int? (aw/column ds name))))

(defn- assert-same-column [ours theirs {:keys [name type]} description]
  (let [expected (mapv identity (aw/column ours name))
        column (theirs (subs (str name) 1))
        actual (mapv #(nth column %) (range (count expected)))
        missing (keep-indexed (fn [row value] (when (nil? value) row)) expected)]
    (is (every? true? (map same-value? expected actual))
        (str description " " name " " type ": " (pr-str expected) " but " (pr-str (vec column))))
    (is (= missing (vec (ds/missing column))) (str description " " name " " type))))

(deftest samples-have-the-same-values
  (let [{:keys [folder expected]} @samples]
    (doseq [file-name (keys expected)]
      (let [ours (aw/open (io/file folder file-name))
            fields (aw/schema ours)]
        ;; Columns of tech.ml.dataset have different names.
        (when (and (seq fields) (apply distinct? nil (map :name fields)))
          (let [theirs (tmd/->dataset ours)]
            (is (= (aw/row-count ours) (ds/row-count theirs)) file-name)
            (doseq [field (remove #(has-packed-counts? ours %) fields)]
              (assert-same-column ours theirs field file-name))))))))

(defn- write-stocks
  "Writes a stream of 1,000 rows, and returns its file."
  []
  (let [folder (programs/temp-folder)
        file (io/file folder "stocks.arrows")
        csv (io/file folder "stocks.csv")
        csv-line (fn [i]
                   (let [symbol (["IBM" "AAPL" "MSFT"] (mod i 3))
                         day (format "%02d" (inc (mod i 28)))
                         price (if (zero? (mod i 7)) "" (* 0.25 i))]
                     (str symbol ",2000-01-" day "," i "," price "\n")))]
    (spit csv (str "symbol,date,n,price\n" (str/join (map csv-line (range 1000)))))
    (aw/write (aw/read-csv csv {:dictionary [:symbol]}) file {:format :stream})
    file))

(deftest stream-equals-what-tech-ml-dataset-reads
  (let [file (write-stocks)
        ours (tmd/->dataset file)
        theirs (arrow/stream->dataset (str file) {:open-type :mmap})
        columns (fn [dataset] (map dataset (ds/column-names dataset)))
        datatypes (fn [dataset] (map (comp :datatype meta) (ds/columns dataset)))]
    (is (= (columns ours) (columns theirs)))
    (is (= (datatypes ours) (datatypes theirs)))
    (is (= (pr-str (aw/open file)) (str ours)))))

(deftest columns-lie-in-the-mapped-file
  (let [ours (aw/open (write-stocks))
        theirs (tmd/->dataset ours {:key-fn keyword})]
    (doseq [column [:n :date]]
      (let [^NativeBuffer buffer (dtype/as-native-buffer (theirs column))
            ^Chunk chunk (first (aw/chunks (ours column)))]
        (is (= (.address buffer) (.address (.values chunk))) column)))
    (is (= (aw/sum (ours :price)) (dfn/sum (ds/drop-missing (theirs :price)))))
    (is (= (count (remove nil? (ours :price))) (ds/row-count (ds/drop-missing theirs :price))))))

(deftest batches-of-a-table-become-one-column
  (let [table (io/file (programs/temp-folder) "ticks")]
    (with-open [writer (aw/writer table {:symbol :utf8 :n :int64} {:dictionary [:symbol] :segment-rows 100})]
      (dotimes [n 1000]
        (aw/append! writer {:symbol (when (pos? (mod n 5)) (str "S" (quot n 50))) :n n})
        (when (zero? (mod n 90)) (aw/commit! writer)))
      (aw/commit! writer))
    (let [ours (aw/open table)
          theirs (tmd/->dataset ours {:key-fn keyword})]
      (is (< 1 (aw/batch-count ours)))
      (is (= (vec (:symbol ours)) (vec (theirs :symbol))))
      (is (= (range 1000) (vec (theirs :n))))
      (is (= 200 (dtype/ecount (ds/missing (theirs :symbol))))))))

(deftest dataset-stays-mapped-after-arena-is-closed
  (let [file (write-stocks)
        theirs (with-open [ours (aw/open file {:arena :confined})]
                 (tmd/->dataset ours))]
    (dotimes [_ 5] (System/gc))
    (is (= 499500 (long (dfn/sum (theirs "n")))))
    (is (= 0 (ds/row-count (tmd/->dataset (aw/head (aw/open file) 0)))))))

(deftest rows-of-a-dataset-are-appended
  (let [theirs (tmd/->dataset (write-stocks))
        table (io/file (programs/temp-folder) "table")]
    (with-open [writer (aw/writer table {:symbol :utf8 :date :date32 :n :int64 :price :float64})]
      (aw/commit! (aw/append! writer (ds/mapseq-reader theirs))))
    (is (= (seq (aw/open table))
           (map #(update-keys % keyword) (seq (aw/open (write-stocks))))))))

(deftest unknown-options-are-refused
  (is (thrown-with-msg? IllegalArgumentException #"has no option :key-fun, perhaps it is :key-fn;"
                        (tmd/->dataset "nowhere.arrow" {:key-fun keyword}))))
