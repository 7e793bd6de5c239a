(ns arrowwood.core-test
  "What the Clojure front does, beside what Clojure says of its own collections."
  (:require
   [arrowwood.core :as aw]
   [arrowwood.programs :as programs]
   [clojure.core.reducers :as reducers]
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]])
  (:import
   (dev.arrowwood ArrowwoodException$Busy ArrowwoodException$Closed ArrowwoodException$ColumnNotFound ArrowwoodException$InvalidArgument ArrowwoodException$InvalidData)
   (java.nio.file NoSuchFileException)
   (java.time Instant LocalDate)))

(defn- prices
  "A file of three rows."
  ([] (prices (programs/folder)))
  ([folder]
   (let [csv (io/file folder "prices.csv") file (io/file folder "prices.arrow")]
     (spit csv "symbol,date,price\nMSFT,2000-01-01,39.81\nIBM,2000-01-02,100.52\nAAPL,2000-01-03,\n")
     (aw/write (aw/read-csv csv {:dictionary [:symbol]}) file)
     file)))

(defn- numbers
  "A dataset of so many rows in batches of 1,000: n, counting from 0, and x, a half more."
  [rows]
  (let [folder (programs/folder) csv (io/file folder "n.csv") file (io/file folder "n.arrow")]
    (with-open [out (io/writer csv)]
      (.write out "n,x\n")
      (dotimes [n rows] (.write out (str n "," n ".5\n"))))
    (aw/write (aw/read-csv csv) file {:max-rows 1000})
    (aw/open file)))

(deftest a-dataset-is-a-collection-of-maps
  (let [ds (aw/open (prices))
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
  (let [ds (aw/open (prices))]
    (is (= ["MSFT" "IBM" "AAPL"] (vec (:symbol ds)) (vec (ds "symbol")) (vec (ds :symbol)) (vec (get ds "symbol"))
           (vec (aw/column ds 0)) (vec (aw/column ds :symbol))))
    (is (nil? (:volume ds)))
    (is (= :none (get ds "volume" :none)))
    (is (thrown? ArrowwoodException$ColumnNotFound (ds :volume)))
    (is (thrown? IllegalArgumentException (aw/column ds :volume)))
    (is (= [{:name :symbol :type "dictionary<int8, utf8>"} {:name :date :type "date32"} {:name :price :type "float64"}]
           (aw/schema ds)))
    (is (= {:name :price :type "float64"} (aw/field (:price ds))))))

(deftest a-column-is-a-collection-of-values
  (let [price (:price (aw/open (prices)))]
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
    (is (nil? (aw/mean (:price (aw/head (aw/open (prices)) 0)))))))

(deftest reducing-is-as-over-a-vector
  (let [ds (numbers 10000) n (:n ds) x (:x ds) vector (vec (range 10000))]
    (is (= (reduce + vector) (reduce + n) (reduce + 0 n) (reduce (fn ^long [^long a ^long b] (+ a b)) 0 n) (aw/sum n)))
    (is (= (reduce + (map #(+ 0.5 %) vector)) (reduce + x) (reduce (fn ^double [^double a ^double b] (+ a b)) 0.0 x)))
    (is (= (reduce (fn [a b] (if (< 5000 b) (reduced a) (max a b))) vector)
           (reduce (fn [a b] (if (< 5000 b) (reduced a) (max a b))) n)))
    (is (= (filter odd? vector) (filter odd? n)))
    (is (= 0 (reduce + (:n (aw/head ds 0)))))))

(deftest parts-in-parallel-give-what-the-whole-does
  (let [ds (numbers 600000) n (:n ds)]
    (is (= (reduce + (range 600000)) (aw/map-reduce n #(reduce + %) +) (reducers/fold + n)))
    (is (= [262144 262144 75712] (aw/map-reduce n #(vector (count %)) into) (aw/map-reduce ds #(vector (count %)) into)))
    (is (= (range 600000) (aw/map-reduce n vec into)))
    (is (= 0 (aw/map-reduce (:n (aw/head ds 0)) count +)))
    (is (= 300000 (reducers/fold + (fn ([] 0) ([k row] (if (even? (:n row)) (inc k) k))) ds)))
    (is (thrown? ArithmeticException (aw/map-reduce n (fn [_] (/ 1 0)) +)))))

(deftest other-datasets
  (let [ds (numbers 100)]
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
         (pr-str (aw/open (prices)))))
  (let [lines (str/split-lines (pr-str (numbers 1000)))]
    (is (= "n.arrow [1000 2]:" (first lines)))
    (is (= 26 (count lines)))
    (is (= "| ... |   ... |" (nth lines 14)))
    (is (= "| 999 | 999.5 |" (last lines))))
  (is (= "#arrowwood.column<int64>[1000]\nn\n[0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 ...]"
         (pr-str (:n (numbers 1000)))))
  (is (str/starts-with? (pr-str (aw/head (numbers 3) 0)) "n.arrow [0 2]:\n\n| n | x |\n|--:|--:|\n")))

(deftest a-file-is-memory
  (let [file (prices) segment (aw/map file) bytes (java.nio.file.Files/readAllBytes (.toPath file))]
    (is (= (alength bytes) (count (aw/typed segment :int8))))
    (is (= (vec bytes) (vec (aw/typed segment :int8)) (reduce conj [] (aw/typed segment :int8))))
    (is (= (mapv #(bit-and 0xff %) bytes) (vec (aw/typed segment :uint8))))
    (is (= (mapv #(bit-and 1 (bit-shift-right (aget bytes (quot % 8)) (rem % 8))) (range 64))
           (vec (aw/typed segment :bit 0 8))))
    (doseq [[type put] {:int16 #(.putShort %1 %2) :int32 #(.putInt %1 %2) :int64 #(.putLong %1 %2)
                        :float32 #(.putFloat %1 %2) :float64 #(.putDouble %1 %2)}]
      (let [buffer (.order (java.nio.ByteBuffer/allocate 8) java.nio.ByteOrder/LITTLE_ENDIAN)]
        (put buffer 5)
        (is (== 5 ((aw/typed (java.lang.foreign.MemorySegment/ofArray (.array buffer)) type) 0)) type)))
    (is (thrown? IndexOutOfBoundsException ((aw/typed segment :int8) (alength bytes))))
    (is (thrown? IllegalArgumentException (aw/typed segment :int7)))
    (is (= :none (get (aw/typed segment :int8) -1 :none)))
    (is (= 18446744073709551615N
           ((aw/typed (java.lang.foreign.MemorySegment/ofArray (byte-array 8 (repeat (byte -1)))) :uint64) 0)))))

(deftest messages-are-data
  (let [file (prices) [schema dictionary batch :as messages] (aw/messages file) segment (aw/map file)]
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
    (let [packed (io/file (programs/folder) "packed.arrow")]
      (aw/write (aw/open file) packed {:compression :zstd})
      (is (thrown? IllegalArgumentException (aw/buffer (aw/map packed) (last (aw/messages packed)) :price :values))))))

(deftest a-table-grows
  (let [table (io/file (programs/folder) "ticks")
        schema {:ts "timestamp[us, UTC] not null" :symbol :utf8 :price :float64 :n "uint64"}
        at #(Instant/ofEpochSecond %)]
    (with-open [writer (aw/writer table schema {:sorted-by :ts :dictionary [:symbol]})]
      (is (identical? writer (aw/append! writer {:ts (at 1) :symbol "IBM" :price 1/2 :n 18446744073709551615N})))
      (aw/append! writer [(at 2) "AAPL" nil 1])
      (aw/append! writer [{:ts (at 3)} {"ts" #inst "1970-01-01T00:00:04Z" :price 4.0}])
      (aw/append! writer (map (fn [n] [(at n) "IBM" 1.0 n]) (range 5 10)))
      (aw/append! writer [])
      (is (= {:rows 9 :committed-rows 0 :durable-rows 0 :dropped-rows 0} (aw/progress writer)))
      (aw/commit! writer)
      (is (thrown? IllegalArgumentException (aw/append! writer {:ts (at 0)})))
      (is (thrown? IllegalArgumentException (aw/append! writer {:tsx (at 99)})))
      (is (thrown? ArrowwoodException$Busy (aw/writer table)))
      (aw/append! writer {:ts (at 99)})
      (aw/rollback! writer)
      (aw/append! writer (aw/slice (aw/open table) 8 1))
      (aw/commit! writer {:durable true})
      (is (= 10 (:durable-rows (aw/progress writer)))))
    (let [ds (aw/open table)]
      (is (= {:ts (at 1) :symbol "IBM" :price 0.5 :n 18446744073709551615N} (first ds)))
      (is (= :ts (aw/sorted-by ds)))
      (is (= 3 (count (aw/between ds (at 2) (at 4)))))
      (is (= [{:name :ts :type "timestamp[us, UTC]" :nullable false} {:name :symbol :type "dictionary<int32, utf8>"}]
             (take 2 (aw/schema ds))))
      (is (= {:rows 10 :damaged 0 :findings []} (select-keys (aw/check table) [:rows :damaged :findings])))
      (is (= {:end 10 :durable-end 10} (select-keys (aw/stat table) [:end :durable-end])))
      (with-open [writer (aw/writer (io/file (programs/folder) "again") (aw/schema ds))]
        (is (= 10 (:rows (aw/progress (aw/append! writer ds)))))))))

(deftest late-rows-are-found
  (let [table (io/file (programs/folder) "late")
        schema [[:ts "int64 not null"] [:symbol :utf8]]
        options {:sorted-by :ts :late :accept :index [:symbol]}]
    (with-open [writer (aw/writer table schema options)]
      (aw/commit! (aw/append! writer [[5 "a"] [8 "b"] [6 "a"]])))
    (with-open [writer (aw/writer table)]                   ; as it was created
      (aw/commit! (aw/append! writer [7 "b"])))
    (let [ds (aw/open table)]
      (is (= [6 7] (vec (:ts (aw/between ds 6 7)))))
      (is (= [8 7] (vec (:ts (aw/filter ds [:= :symbol "b"])))))
      (is (nil? (aw/sorted-by ds))))
    (is (thrown-with-msg? IllegalArgumentException #"accepts late rows" (aw/writer table schema (assoc options :late :refuse))))
    (is (thrown-with-msg? IllegalArgumentException #"nothing"
                          (aw/writer (io/file (programs/folder) "other") schema (assoc options :index [:nothing]))))))

(deftest an-exception-never-commits-half-a-batch
  (let [table (io/file (programs/folder) "half")]
    (is (thrown? IllegalStateException
                 (with-open [writer (aw/writer table "n: int64")]
                   (aw/commit! (aw/append! writer [0]))
                   (aw/append! writer [1])
                   (throw (IllegalStateException. "a message that can't be parsed")))))
    (with-open [writer (aw/writer table)] (aw/append! writer [2]))
    (is (= [{:n 0}] (seq (aw/open table))))))

(deftest positions-are-part-of-a-commit
  (let [table (io/file (programs/folder) "ticks")]
    (with-open [writer (aw/writer table "n: int64")]
      (is (= {} (aw/positions writer)))
      (aw/commit! (aw/append! writer [1]) {:positions {"kafka/ticks/0" 17 :b -3} :durable true})
      (aw/commit! writer {:positions {"kafka/ticks/0" 18N}})
      (is (identical? writer (aw/wait-durable! writer)))
      (is (= {"b" -3 "kafka/ticks/0" 18} (aw/positions writer)))
      (is (thrown? IllegalArgumentException (aw/commit! writer {:positions {"" 1}}))))
    (is (= {"b" -3 "kafka/ticks/0" 18} (aw/positions (aw/open table))))))

(deftest a-table-is-followed
  (let [table (io/file (programs/folder) "ticks")]
    (with-open [writer (aw/writer table "n: int64")]
      (aw/commit! (aw/append! writer (map vector (range 10))))
      (with-open [follower (aw/follow table {:timeout-ms 50})]
        (is (= 45 (reduce (fn [sum rows] (+ sum (aw/sum (:n rows)))) 0 follower)))
        (aw/commit! (aw/append! writer [[10]]))
        (is (= [{:n 10}] (seq (aw/next! follower programs/patience-ms))))
        (is (nil? (aw/next! follower 0))))
      (with-open [follower (aw/follow (aw/open table))]
        (let [all (future (reduce (fn [seen rows]
                                    (let [seen (into seen (:n rows))] (if (< 1000 (count seen)) (reduced seen) seen)))
                                  [] follower))]
          (doseq [n (range 11 1001)] (aw/commit! (aw/append! writer [n])))
          (is (= (range 1001) (programs/value "all rows are seen" all)))))
      (let [follower (aw/follow table {:from -1})]
        (.close ^java.lang.AutoCloseable follower)
        (is (thrown? ArrowwoodException$Closed (aw/next! follower 0)))))))

(deftest closing-a-follower-ends-the-reduce
  (let [table (io/file (programs/folder) "t")]
    (with-open [writer (aw/writer table "n: int64")] (aw/commit! (aw/append! writer [[1] [2]])))
    (let [follower (aw/follow table)
          seen (promise)
          sum (future (reduce (fn [n rows] (deliver seen true) (+ n (count rows))) 0 follower))]
      (is (programs/value "rows are seen" seen))
      (.close ^java.lang.AutoCloseable follower)
      (is (= 2 (programs/value "the reduce has ended" sum)))
      (is (= :none (reduce conj :none follower)) "closed before")
      (is (= :closed (aw/error-kind (try (aw/next! follower 0) (catch Exception e e))))))
    ;; What the function throws is not the follower's.
    (with-open [follower (aw/follow table)]
      (is (thrown? ArrowwoodException$Closed (reduce (fn [_ _] (aw/next! (doto (aw/follow table) (.close)) 0)) 0 follower))))))

(deftest what-was-made-before-a-reload-is-no-stranger
  (let [ds (numbers 1000)
        column (:n ds)
        memory (aw/typed (aw/map (prices)) :int8)
        table (io/file (programs/folder) "t")
        follower (do (with-open [writer (aw/writer table "n: int64")] (aw/commit! (aw/append! writer [[1] [2]])))
                     (aw/follow table))
        uses {"rows" #(aw/row-count ds) "nth" #(nth ds 3) "a row" #(aw/row ds 3) "filter" #(aw/row-count (aw/filter ds [:< :n 10]))
              "concat" #(aw/row-count (aw/concat ds ds (numbers 10))) "messages" #(count (aw/messages ds))
              "sum" #(aw/sum column) "a column of it" #(aw/sum (ds :x)) "field" #(aw/field column)
              "map-reduce" #(aw/map-reduce column (fn [part] (reduce + part)) +) "fold" #(reducers/fold + column)
              "fold of rows" #(reducers/fold + (fn ([] 0) ([k _] (inc k))) ds)
              "print" #(pr-str ds) "print a column" #(pr-str column) "print memory" #(pr-str memory)
              "text" #(aw/text memory 0 6) "name" #(aw/dataset-name ds) "print a follower" #(pr-str follower)
              "append" #(with-open [writer (aw/writer (io/file (programs/folder) "t") (aw/schema ds))]
                          (:rows (aw/progress (aw/append! writer ds))))}
        before (update-vals uses #(%))]
    (doseq [reload [:reload :reload-all]]
      (require 'arrowwood.core reload)
      (doseq [[what use] uses]
        (is (= (before what) (use)) (str what " after " reload)))
      (is (= (class ds) (class (aw/open (prices)))))
      (is (= "AAPL" (:symbol (last (aw/open (prices))))) "what is opened now works, too"))
    (is (= [{:n 1} {:n 2}] (seq (aw/next! follower programs/patience-ms))))
    (is (= :none (reduce conj :none (doto follower (.close)))))))

(deftest a-type-is-made-anew-where-its-source-has-changed
  (binding [*ns* (create-ns 'arrowwood.scratch)]
    (refer-clojure)
    (require '[arrowwood.impl.once :refer [deftype-once]])
    (let [made (fn [text] (class (eval (read-string (str "(do " text " (->Thing 1))")))))
          same "(deftype-once Thing [x] clojure.lang.IDeref (deref [_] (#(+ % 1) x)))"
          first-one (made same)]
      (is (= first-one (made same) (made same)))
      (is (not= first-one (made "(deftype-once Thing [x] clojure.lang.IDeref (deref [_] (#(+ % 2) x)))"))))))

(deftest failures-are-told-apart
  (doseq [[kind work] {:not-found #(aw/open "nowhere.arrow") :invalid-data #(aw/open-bytes (.getBytes "symbol,price"))
                       :column-not-found #((aw/open (prices)) :volume) :row-out-of-range #(nth (aw/open (prices)) 3)
                       :invalid-argument #(aw/sum 1) :unsupported #(aw/longs ((aw/open (prices)) :price))}]
    (let [exception (try (work) nil (catch Exception e e))]
      (is (= kind (aw/error-kind exception)))
      (is (= kind (aw/error-kind (ex-info "while a job runs" {} (java.util.concurrent.ExecutionException. exception)))))))
  (is (= :row-out-of-range (aw/error-kind (try ((:price (aw/open (prices))) 3) (catch Exception e e)))))
  (is (nil? (aw/error-kind (ex-info "another" {}))))
  (is (nil? (aw/error-kind nil))))

(deftest with-open-ends-a-dataset
  (doseq [arena [:confined :shared]]
    (let [closed (with-open [ds (aw/open (prices) {:arena arena})]
                   (is (= 3 (count ds)))
                   ds)]
      (is (thrown? IllegalStateException (count closed)))))
  (with-open [ds (aw/open [(prices)] {:arena :shared})] (is (= 3 (count ds))))
  (is (= 3 (count (with-open [ds (aw/open (prices))] ds))) "without an arena the collector ends it"))

(deftest mistakes-say-what-they-are
  (is (thrown? NoSuchFileException (aw/open "nowhere.arrow")))
  (is (thrown? ArrowwoodException$InvalidData (aw/open-bytes (.getBytes "symbol,price"))))
  (is (thrown-with-msg? IllegalArgumentException #":confined or :shared" (aw/open (prices) {:arena :auto})))
  (is (thrown-with-msg? IllegalArgumentException #":file, :stream" (aw/write (aw/open (prices)) "x" {:format :csv})))
  (is (thrown-with-msg? IllegalArgumentException #"keywords or strings" ((aw/open (prices)) 1.5)))
  (is (thrown? ArrowwoodException$InvalidArgument (aw/writer (io/file (programs/folder) "t") "n: int65")))
  (let [file (prices)]
    (is (thrown? IllegalArgumentException (nth (aw/select (aw/open file) [0 0]) 0)) "two columns of one name")
    (is (= 3 (count (aw/open-bytes (java.nio.file.Files/readAllBytes (.toPath file)) {:validate true}))))))
