(ns arrowwood.core-test
  "Tests arrowwood.core: datasets and columns as Clojure collections, queries, tables, followers and failures."
  (:require
   [arrowwood.core :as aw]
   [arrowwood.programs :as programs]
   [clojure.core.reducers :as reducers]
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is]])
  (:import
   (dev.arrowwood ArrowwoodException$Busy ArrowwoodException$Closed ArrowwoodException$ColumnNotFound ArrowwoodException$InvalidArgument ArrowwoodException$InvalidData)
   (java.io File)
   (java.lang AutoCloseable)
   (java.lang.foreign MemorySegment)
   (java.nio ByteBuffer ByteOrder)
   (java.nio.file Files NoSuchFileException)
   (java.time Instant LocalDate)
   (java.util.concurrent ExecutionException)))

(defn- write-prices
  "Writes a file of three rows, and returns it."
  ^File []
  (let [folder (programs/temp-folder)
        csv (io/file folder "prices.csv")
        file (io/file folder "prices.arrow")]
    (spit csv "symbol,date,price\nMSFT,2000-01-01,39.81\nIBM,2000-01-02,100.52\nAAPL,2000-01-03,\n")
    (aw/write (aw/read-csv csv {:dictionary [:symbol]}) file)
    file))

(defn- open-prices [] (aw/open (write-prices)))

(defn- open-numbers
  "Writes and opens a dataset in batches of 1,000 rows: `n` counts from 0, and `x` is `n` + 0.5."
  [row-count]
  (let [folder (programs/temp-folder)
        csv (io/file folder "n.csv")
        file (io/file folder "n.arrow")]
    (with-open [out (io/writer csv)]
      (.write out "n,x\n")
      (dotimes [n row-count] (.write out (str n "," n ".5\n"))))
    (aw/write (aw/read-csv csv) file {:max-rows 1000})
    (aw/open file)))

(defn- new-table
  "Returns the path of a table that doesn't exist yet."
  [name]
  (io/file (programs/temp-folder) name))

(defn- thrown-by [call]
  (try
    (call)
    nil
    (catch Exception e e)))

;; ---- collections ----

(deftest dataset-is-a-collection-of-maps
  (let [ds (open-prices)
        row {:symbol "IBM" :date (LocalDate/of 2000 1 2) :price 100.52}]
    (is (= 3 (count ds) (aw/row-count ds)))
    (is (= row (nth ds 1) (second ds) (aw/row ds 1) (nth (seq ds) 1)))
    (is (= [:symbol :date :price] (keys (first ds))))
    (is (= :none (nth ds 3 :none) (nth ds -1 :none)))
    (is (thrown? IndexOutOfBoundsException (nth ds 3)))
    (is (= ["MSFT" "IBM" "AAPL"] (map :symbol ds) (mapv :symbol (iterator-seq (.iterator ^Iterable ds)))))
    (is (= 2 (reduce (fn [n row] (if (:price row) (inc n) n)) 0 ds)))
    (is (= "IBM" (reduce (fn [_ row] (if (= "IBM" (:symbol row)) (reduced (:symbol row)) nil)) nil ds)))
    (is (= ds ds))
    (is (nil? (seq (aw/head ds 0))))))

(deftest columns-are-found-by-keywords-and-strings
  (let [ds (open-prices)]
    (is (= ["MSFT" "IBM" "AAPL"] (vec (:symbol ds)) (vec (ds "symbol")) (vec (ds :symbol)) (vec (get ds "symbol"))
           (vec (aw/column ds 0)) (vec (aw/column ds :symbol))))
    (is (nil? (:volume ds)))
    (is (= :none (get ds "volume" :none)))
    (is (thrown? ArrowwoodException$ColumnNotFound (ds :volume)))
    (is (thrown? IllegalArgumentException (aw/column ds :volume)))
    (is (= [{:name :symbol :type "dictionary<int8, utf8>"} {:name :date :type "date32"} {:name :price :type "float64"}]
           (aw/schema ds)))
    (is (= {:name :price :type "float64"} (aw/field (:price ds))))))

(deftest column-is-a-collection-of-values
  (let [price (:price (open-prices))]
    (is (= [39.81 100.52 nil] (vec price) (seq price) (into [] price) [(price 0) (nth price 1) (get price 2)]))
    (is (= 3 (count price)))
    (is (= :none (nth price 3 :none) (get price 3 :none)))
    (is (thrown? IndexOutOfBoundsException (price 3)))
    (is (= 2 (aw/count price)))
    (is (= 1 (aw/null-count price)))
    (is (= (+ 39.81 100.52) (aw/sum price)))
    (is (= (/ (+ 39.81 100.52) 2) (aw/mean price) (aw/quantile price 0.5)))
    (is (= [39.81 100.52] [(aw/min price) (aw/max price)]))
    (is (= 3 (aw/n-unique price)))
    (is (nil? (aw/mean (:price (aw/head (open-prices) 0)))))))

(defn- max-until
  "Returns the maximum of the values before the first that is greater than 5,000."
  [coll]
  (reduce (fn [a b] (if (< 5000 b) (reduced a) (max a b))) coll))

(deftest reduce-is-as-over-a-vector
  (let [ds (open-numbers 10000)
        n (:n ds)
        x (:x ds)
        numbers (vec (range 10000))]
    (is (= (reduce + numbers)
           (reduce + n)
           (reduce + 0 n)
           (reduce (fn ^long [^long a ^long b] (+ a b)) 0 n)
           (aw/sum n)))
    (is (= (reduce + (map #(+ 0.5 %) numbers))
           (reduce + x)
           (reduce (fn ^double [^double a ^double b] (+ a b)) 0.0 x)))
    (is (= (max-until numbers) (max-until n)))
    (is (= (filter odd? numbers) (filter odd? n)))
    (is (= 0 (reduce + (:n (aw/head ds 0)))))))

(deftest map-reduce-and-fold-equal-reduce
  (let [ds (open-numbers 600000)
        n (:n ds)
        count-even (fn
                     ([] 0)
                     ([even-count row] (if (even? (:n row)) (inc even-count) even-count)))]
    (is (= (reduce + (range 600000))
           (aw/map-reduce n #(reduce + %) +)
           (reducers/fold + n)))
    (is (= [262144 262144 75712]
           (aw/map-reduce n #(vector (count %)) into)
           (aw/map-reduce ds #(vector (count %)) into)))
    (is (= (range 600000) (aw/map-reduce n vec into)))
    (is (= 0 (aw/map-reduce (:n (aw/head ds 0)) count +)))
    (is (= 300000 (reducers/fold + count-even ds)))
    (is (thrown? ArithmeticException (aw/map-reduce n (fn [_] (/ 1 0)) +)))))

;; ---- queries ----

(deftest rows-are-selected-filtered-and-aggregated
  (let [ds (open-numbers 100)]
    (is (= [{:x 3.5} {:x 4.5}] (seq (aw/slice (aw/select ds [:x]) 3 2)) (seq (aw/take (aw/select ds [1]) [3 4]))))
    (is (= [0 1 2 3 4] (vec (:n (aw/head ds)))))
    (is (= [98 99] (vec (:n (aw/tail ds 2)))))
    (is (= 200 (count (aw/concat ds ds))))
    (is (= (set (range 100)) (set (:n (aw/shuffle ds 7)))))
    (is (= 5 (count (distinct (:n (aw/sample ds 5 1))))))
    (is (= [7] (vec (:n (aw/filter ds [:and [:>= :n 7] [:not [:> "n" 7]]])))))
    (is (= [1 2 99] (vec (:n (aw/filter ds [:or [:in :n [1 2]] [:= :n 99N]])))))
    (is (empty? (aw/filter ds [:null :n])))
    (is (= 100 (count (aw/filter ds [:not= :n nil]))))
    (is (thrown? IllegalArgumentException (aw/filter ds [:like :n 1])))
    (is (thrown? IllegalArgumentException (aw/filter ds "n > 1")))
    (is (= [{:rows 100 :mean 50.0}] (seq (aw/aggregate ds [] {:rows [:count] :mean [:mean :x]}))))
    (is (= [{:half 49.5 :all 100}] (seq (aw/aggregate ds [] {:half [:median :n] :all [:n-unique :n]}))))
    (is (= [{:rows 10}] (seq (aw/aggregate ds [] {:rows [:count]} {:where [:< :n 10]}))))
    (is (= 9 (count (aw/describe ds))))
    (is (= 1 (aw/batch-count (aw/collect ds))))
    (is (= [{:n 0 :count 1}] (seq (aw/head (aw/value-counts (:n ds)) 1))))
    (is (= ds (aw/validate ds)))
    (is (pos? (:mapped (aw/footprint ds))))))

(deftest datasets-print-as-tables
  (is (= (str "prices.arrow [3 3]:\n\n"
              "| symbol |       date |  price |\n"
              "|--------|------------|-------:|\n"
              "|   MSFT | 2000-01-01 |  39.81 |\n"
              "|    IBM | 2000-01-02 | 100.52 |\n"
              "|   AAPL | 2000-01-03 |        |\n")
         (pr-str (open-prices))))
  (let [lines (str/split-lines (pr-str (open-numbers 1000)))]
    (is (= "n.arrow [1000 2]:" (first lines)))
    (is (= 26 (count lines)))
    (is (= "| ... |   ... |" (nth lines 14)))
    (is (= "| 999 | 999.5 |" (last lines))))
  (is (= "#arrowwood.column<int64>[1000]\nn\n[0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 ...]"
         (pr-str (:n (open-numbers 1000)))))
  (is (str/starts-with? (pr-str (aw/head (open-numbers 3) 0)) "n.arrow [0 2]:\n\n| n | x |\n|--:|--:|\n")))

(defn- little-endian
  "Returns eight bytes that begin with a number, as `put` writes it."
  [put number]
  (let [buffer (.order (ByteBuffer/allocate 8) ByteOrder/LITTLE_ENDIAN)]
    (put buffer number)
    (.array buffer)))

(deftest file-is-typed-memory
  (let [file (write-prices)
        segment (aw/map file)
        bytes (Files/readAllBytes (.toPath file))
        int8s (aw/typed segment :int8)
        bit-at (fn [index] (bit-and 1 (bit-shift-right (aget bytes (quot index 8)) (rem index 8))))]
    (is (= (alength bytes) (count int8s)))
    (is (= (vec bytes) (vec int8s) (reduce conj [] int8s)))
    (is (= (mapv #(bit-and 0xff %) bytes) (vec (aw/typed segment :uint8))))
    (is (= (mapv bit-at (range 64)) (vec (aw/typed segment :bit 0 8))))
    (doseq [[type put] {:int16 #(.putShort %1 %2)
                        :int32 #(.putInt %1 %2)
                        :int64 #(.putLong %1 %2)
                        :float32 #(.putFloat %1 %2)
                        :float64 #(.putDouble %1 %2)}]
      (is (== 5 ((aw/typed (MemorySegment/ofArray (little-endian put 5)) type) 0)) type))
    (is (thrown? IndexOutOfBoundsException (int8s (alength bytes))))
    (is (thrown? IllegalArgumentException (aw/typed segment :int7)))
    (is (= :none (get int8s -1 :none)))
    (let [all-ones (MemorySegment/ofArray (byte-array 8 (repeat (byte -1))))]
      (is (= 18446744073709551615N ((aw/typed all-ones :uint64) 0))))))

(deftest messages-are-data
  (let [file (write-prices)
        [schema dictionary batch :as messages] (aw/messages file)
        segment (aw/map file)]
    (is (= ["Schema" "DictionaryBatch" "RecordBatch"] (map :kind messages)))
    (is (= messages (aw/messages (aw/open file))))
    (is (= [{:name "symbol" :type "utf8" :nullable true :dictionary 0 :keys "int8"}
            {:name "date" :type "date32" :nullable true}
            {:name "price" :type "float64" :nullable true}]
           (:fields schema)))
    (is (= [0 4 7 11] (seq (aw/buffer segment dictionary :symbol :offsets))))
    (is (= "IBM" (aw/text (aw/buffer segment dictionary "symbol" "data") 4 7)))
    (is (= [0 1 2] (seq (aw/buffer segment batch :symbol :keys))))
    (is (= [39.81 100.52] (take 2 (aw/buffer segment batch :price :values))))
    (is (= [1 1 0] (take 3 (aw/buffer segment batch :price :validity))))
    (is (thrown? IllegalArgumentException (aw/buffer segment batch :price :offsets)))
    (let [compressed (io/file (programs/temp-folder) "packed.arrow")]
      (aw/write (aw/open file) compressed {:compression :zstd})
      (is (thrown? IllegalArgumentException
                   (aw/buffer (aw/map compressed) (last (aw/messages compressed)) :price :values))))))

;; ---- tables ----

(deftest rows-are-appended-in-all-forms
  (let [table (new-table "ticks")
        schema {:ts "timestamp[us, UTC] not null" :symbol :utf8 :price :float64 :n "uint64"}
        timestamp #(Instant/ofEpochSecond %)]
    (with-open [writer (aw/writer table schema {:sorted-by :ts :dictionary [:symbol]})]
      (is (identical? writer (aw/append! writer {:ts (timestamp 1) :symbol "IBM" :price 1/2 :n 18446744073709551615N})))
      (aw/append! writer [(timestamp 2) "AAPL" nil 1])
      (aw/append! writer [{:ts (timestamp 3)} {"ts" #inst "1970-01-01T00:00:04Z" :price 4.0}])
      (aw/append! writer (map (fn [n] [(timestamp n) "IBM" 1.0 n]) (range 5 10)))
      (aw/append! writer [])
      (is (= {:rows 9 :committed-rows 0 :durable-rows 0 :dropped-rows 0} (aw/progress writer)))
      (aw/commit! writer)
      (is (thrown? IllegalArgumentException (aw/append! writer {:ts (timestamp 0)})))
      (is (thrown? IllegalArgumentException (aw/append! writer {:tsx (timestamp 99)})))
      (is (thrown? ArrowwoodException$Busy (aw/writer table)))
      (aw/append! writer {:ts (timestamp 99)})
      (aw/rollback! writer)
      (aw/append! writer (aw/slice (aw/open table) 8 1))
      (aw/commit! writer {:durable true})
      (is (= 10 (:durable-rows (aw/progress writer)))))
    (let [ds (aw/open table)]
      (is (= {:ts (timestamp 1) :symbol "IBM" :price 0.5 :n 18446744073709551615N} (first ds)))
      (is (= :ts (aw/sorted-by ds)))
      (is (= 3 (count (aw/between ds (timestamp 2) (timestamp 4)))))
      (is (= [{:name :ts :type "timestamp[us, UTC]" :nullable false} {:name :symbol :type "dictionary<int32, utf8>"}]
             (take 2 (aw/schema ds))))
      (is (= {:rows 10 :damaged 0 :findings []} (select-keys (aw/check table) [:rows :damaged :findings])))
      (is (= {:end 10 :durable-end 10} (select-keys (aw/stat table) [:end :durable-end])))
      (with-open [writer (aw/writer (new-table "again") (aw/schema ds))]
        (is (= 10 (:rows (aw/progress (aw/append! writer ds)))))))))

(deftest late-rows-are-found-by-between-and-filter
  (let [table (new-table "late")
        schema [[:ts "int64 not null"] [:symbol :utf8]]
        options {:sorted-by :ts :late :accept :index [:symbol]}]
    (with-open [writer (aw/writer table schema options)]
      (aw/commit! (aw/append! writer [[5 "a"] [8 "b"] [6 "a"]])))
    ;; The options are those that the table was created with.
    (with-open [writer (aw/writer table)]
      (aw/commit! (aw/append! writer [7 "b"])))
    (let [ds (aw/open table)]
      (is (= [6 7] (vec (:ts (aw/between ds 6 7)))))
      (is (= [8 7] (vec (:ts (aw/filter ds [:= :symbol "b"])))))
      (is (nil? (aw/sorted-by ds))))
    (is (thrown-with-msg? IllegalArgumentException #"accepts late rows" (aw/writer table schema (assoc options :late :refuse))))
    (is (thrown-with-msg? IllegalArgumentException #"nothing"
                          (aw/writer (new-table "other") schema (assoc options :index [:nothing]))))))

(deftest with-open-discards-uncommitted-rows
  (let [table (new-table "half")]
    (is (thrown? IllegalStateException
                 (with-open [writer (aw/writer table "n: int64")]
                   (aw/commit! (aw/append! writer [0]))
                   (aw/append! writer [1])
                   (throw (IllegalStateException. "a message that can't be parsed")))))
    (with-open [writer (aw/writer table)] (aw/append! writer [2]))
    (is (= [{:n 0}] (seq (aw/open table))))))

(deftest positions-are-stored-with-the-commit
  (let [table (new-table "ticks")]
    (with-open [writer (aw/writer table "n: int64")]
      (is (= {} (aw/positions writer)))
      (aw/commit! (aw/append! writer [1]) {:positions {"kafka/ticks/0" 17 :b -3} :durable true})
      (aw/commit! writer {:positions {"kafka/ticks/0" 18N}})
      (is (identical? writer (aw/wait-durable! writer)))
      (is (= {"b" -3 "kafka/ticks/0" 18} (aw/positions writer)))
      (is (thrown? IllegalArgumentException (aw/commit! writer {:positions {"" 1}}))))
    (is (= {"b" -3 "kafka/ticks/0" 18} (aw/positions (aw/open table))))))

;; ---- followers ----

(defn- collect-numbers
  "Reduces a follower to the numbers of its rows, until there are so many."
  [follower row-count]
  (reduce (fn [numbers rows]
            (let [numbers (into numbers (:n rows))]
              (if (<= row-count (count numbers)) (reduced numbers) numbers)))
          []
          follower))

(deftest follower-returns-committed-rows
  (let [table (new-table "ticks")]
    (with-open [writer (aw/writer table "n: int64")]
      (aw/commit! (aw/append! writer (map vector (range 10))))
      (with-open [follower (aw/follow table {:timeout-ms 50})]
        (is (= 45 (reduce (fn [sum rows] (+ sum (aw/sum (:n rows)))) 0 follower)))
        (aw/commit! (aw/append! writer [[10]]))
        (is (= [{:n 10}] (seq (aw/next! follower programs/timeout-ms))))
        (is (nil? (aw/next! follower 0))))
      (with-open [follower (aw/follow (aw/open table))]
        (let [numbers (future (collect-numbers follower 1001))]
          (doseq [n (range 11 1001)] (aw/commit! (aw/append! writer [n])))
          (is (= (range 1001) (programs/await-value "all rows are received" numbers)))))
      (let [follower (aw/follow table {:from -1})]
        (.close ^AutoCloseable follower)
        (is (thrown? ArrowwoodException$Closed (aw/next! follower 0)))))))

(defn- write-two-rows []
  (let [table (new-table "t")]
    (with-open [writer (aw/writer table "n: int64")]
      (aw/commit! (aw/append! writer [[1] [2]])))
    table))

(deftest closing-a-follower-ends-its-reduce
  (let [table (write-two-rows)
        follower (aw/follow table)
        received (promise)
        row-count (future (reduce (fn [sum rows]
                                    (deliver received true)
                                    (+ sum (count rows)))
                                  0
                                  follower))]
    (is (programs/await-value "rows are received" received))
    (.close ^AutoCloseable follower)
    (is (= 2 (programs/await-value "the reduce has ended" row-count)))
    (is (= :none (reduce conj :none follower)) "closed before")
    (is (= :closed (aw/error-kind (thrown-by #(aw/next! follower 0)))))
    ;; An exception of the reducing function isn't taken for the follower's own.
    (let [throw-closed (fn [_ _]
                         (let [other (aw/follow table)]
                           (.close ^AutoCloseable other)
                           (aw/next! other 0)))]
      (with-open [follower (aw/follow table)]
        (is (thrown? ArrowwoodException$Closed (reduce throw-closed 0 follower)))))))

;; ---- reloading ----

(deftest objects-created-before-a-reload-stay-usable
  (let [ds (open-numbers 1000)
        column (:n ds)
        memory (aw/typed (aw/map (write-prices)) :int8)
        follower (aw/follow (write-two-rows))
        count-rows (fn
                     ([] 0)
                     ([row-count _] (inc row-count)))
        append-to-new-table (fn []
                              (with-open [writer (aw/writer (new-table "t") (aw/schema ds))]
                                (:rows (aw/progress (aw/append! writer ds)))))
        calls {"row-count" #(aw/row-count ds)
               "nth" #(nth ds 3)
               "row" #(aw/row ds 3)
               "filter" #(aw/row-count (aw/filter ds [:< :n 10]))
               "concat" #(aw/row-count (aw/concat ds ds (open-numbers 10)))
               "messages" #(count (aw/messages ds))
               "sum" #(aw/sum column)
               "sum of another column" #(aw/sum (ds :x))
               "field" #(aw/field column)
               "map-reduce" #(aw/map-reduce column (fn [part] (reduce + part)) +)
               "fold" #(reducers/fold + column)
               "fold of rows" #(reducers/fold + count-rows ds)
               "print" #(pr-str ds)
               "print a column" #(pr-str column)
               "print memory" #(pr-str memory)
               "text" #(aw/text memory 0 6)
               "dataset-name" #(aw/dataset-name ds)
               "print a follower" #(pr-str follower)
               "append" append-to-new-table}
        before (update-vals calls #(%))]
    (doseq [reload [:reload :reload-all]]
      (require 'arrowwood.core reload)
      (doseq [[description call] calls]
        (is (= (before description) (call)) (str description " after " reload)))
      (is (= (class ds) (class (open-prices))))
      (is (= "AAPL" (:symbol (last (open-prices)))) "new datasets work, too"))
    (is (= [{:n 1} {:n 2}] (seq (aw/next! follower programs/timeout-ms))))
    (is (= :none (reduce conj :none (doto follower (.close)))))))

(deftest type-is-defined-again-only-if-its-source-changed
  (binding [*ns* (create-ns 'arrowwood.scratch)]
    (refer-clojure)
    (require '[arrowwood.impl.once :refer [deftype-once]])
    (let [define (fn [text] (class (eval (read-string (str "(do " text " (->Thing 1))")))))
          source "(deftype-once Thing [x] clojure.lang.IDeref (deref [_] (#(+ % 1) x)))"
          changed-source "(deftype-once Thing [x] clojure.lang.IDeref (deref [_] (#(+ % 2) x)))"
          type (define source)]
      (is (= type (define source) (define source)))
      (is (not= type (define changed-source))))))

;; ---- failures ----

(deftest error-kind-tells-failures-apart
  (doseq [[kind call] {:not-found #(aw/open "nowhere.arrow")
                       :invalid-data #(aw/open-bytes (.getBytes "symbol,price"))
                       :column-not-found #((open-prices) :volume)
                       :row-out-of-range #(nth (open-prices) 3)
                       :invalid-argument #(aw/sum 1)
                       :unsupported #(aw/longs ((open-prices) :price))}]
    (let [exception (thrown-by call)
          wrapped (ex-info "while a job runs" {} (ExecutionException. exception))]
      (is (= kind (aw/error-kind exception)))
      (is (= kind (aw/error-kind wrapped)))))
  (is (= :row-out-of-range (aw/error-kind (thrown-by #((:price (open-prices)) 3)))))
  (is (nil? (aw/error-kind (ex-info "another" {}))))
  (is (nil? (aw/error-kind nil))))

(deftest with-open-closes-dataset-with-arena
  (doseq [arena [:confined :shared]]
    (let [closed (with-open [ds (aw/open (write-prices) {:arena arena})]
                   (is (= 3 (count ds)))
                   ds)]
      (is (thrown? IllegalStateException (count closed)))))
  (with-open [ds (aw/open [(write-prices)] {:arena :shared})] (is (= 3 (count ds))))
  (is (= 3 (count (with-open [ds (open-prices)] ds))) "without an arena, the garbage collector frees the dataset"))

(deftest invalid-calls-are-refused
  (is (thrown? NoSuchFileException (aw/open "nowhere.arrow")))
  (is (thrown? ArrowwoodException$InvalidData (aw/open-bytes (.getBytes "symbol,price"))))
  (is (thrown-with-msg? IllegalArgumentException #":confined or :shared" (aw/open (write-prices) {:arena :auto})))
  (is (thrown-with-msg? IllegalArgumentException #":file, :stream" (aw/write (open-prices) "x" {:format :csv})))
  (is (thrown-with-msg? IllegalArgumentException #"keywords or strings" ((open-prices) 1.5)))
  (is (thrown? ArrowwoodException$InvalidArgument (aw/writer (new-table "t") "n: int65")))
  (let [file (write-prices)]
    (is (thrown? IllegalArgumentException (nth (aw/select (aw/open file) [0 0]) 0)) "rows can't have two columns of one name")
    (is (= 3 (count (aw/open-bytes (Files/readAllBytes (.toPath file)) {:validate true}))))))
