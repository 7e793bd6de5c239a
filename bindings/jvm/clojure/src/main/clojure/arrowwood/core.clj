(ns arrowwood.core
  "Arrow data of any size opened in place, and Arrow files that grow.

      (require '[arrowwood.core :as aw])
      (def ds (aw/open \"prices.arrow\"))
      (count ds)
      (nth ds 0)                        ; {:symbol \"MSFT\", :price 39.81}
      (aw/mean (ds :price))
      (reduce + (ds :price))

  Columns are named by keywords or strings. Rows are maps from keywords to values. Options are a map, whose unknown
  keys are refused. Exceptions are of the JDK's usual classes, such as IllegalArgumentException; `error-kind` tells
  them apart."
  (:refer-clojure :exclude [concat count doubles filter longs map max min shuffle take])
  (:require
   [arrowwood.impl.arguments :as arguments :refer [invalid-argument printable]]
   [arrowwood.impl.memory :as memory]
   [arrowwood.impl.once :refer [deftype-once]]
   [arrowwood.impl.print :as print]
   [arrowwood.impl.values :as values]
   [clojure.core :as c]
   [clojure.core.reducers :as reducers]
   [clojure.string :as str])
  (:import
   (clojure.lang Counted IFn IFn$DDD IFn$LLL ILookup IReduce IReduceInit Indexed Seqable Sequential)
   (dev.arrowwood Aggregate Aggregate$Function Arrowwood Arrowwood$CsvOptions ArrowwoodException ArrowwoodException$Closed ArrowwoodException$InvalidArgument ArrowwoodException$RowOutOfRange Chunk ChunkOption Condition DoubleColumn Follow LongColumn ReadOption Report Report$Finding Row Schema TableStat TableWriter TableWriter$State WriteOptions WriteOptions$Compression WriteOptions$Format WriterOptions WriterOptions$Late WriterOptions$Sync)
   (dev.arrowwood.types Field Type Type$Bool Type$Floating Type$Int)
   (java.io File Writer)
   (java.lang AutoCloseable Iterable)
   (java.lang.foreign Arena MemorySegment)
   (java.nio.channels FileChannel FileChannel$MapMode)
   (java.nio.file OpenOption Path StandardOpenOption)
   (java.time Duration)
   (java.util HashMap List Map Optional OptionalDouble)
   (java.util.function IntFunction)
   (java.util.stream IntStream)))

(set! *warn-on-reflection* true)

(def ^:private max-path-length 4096)

(defn- path ^Path [file]
  (cond
    (instance? Path file) file
    (instance? File file) (.toPath ^File file)
    (and (string? file) (<= (c/count file) (long max-path-length))) (Path/of file (make-array String 0))
    (string? file) (throw (invalid-argument "a path has at most " max-path-length " characters, not " (c/count file)
                            ": " (printable file)))
    :else (throw (invalid-argument "a path is a string, a File or a Path, not " (printable file)))))

(defn- optional [^Optional value] (.orElse value nil))

;; ---- failures ----

(defn error-kind
  "Returns the kind of a failure of Arrowwood, even if it is the cause of another exception: :not-found,
  :invalid-argument and so on, the codes of dev.arrowwood.ArrowwoodException. Returns nil for other exceptions.

      (try (aw/open \"prices.arrow\")
        (catch Exception e (if (= :not-found (aw/error-kind e)) nil (throw e))))"
  [exception]
  (when-let [^ArrowwoodException failure (optional (ArrowwoodException/find exception))]
    (values/keyword-of (.code failure))))

;; ---- datasets and columns ----

(declare ->Column row-count)

(defn- reduce-range
  "Reduces (read-at i) for i from start to end, until the result is `reduced`."
  [f init start end read-at]
  (loop [i (long start) result init]
    (if (< i (long end))
      (let [result (f result (read-at i))]
        (if (reduced? result) @result (recur (inc i) result)))
      result)))

(defn- checked-index ^long [i ^long size kind]
  (if (and (int? i) (<= 0 (long i)) (< (long i) size))
    (long i)
    (throw (ArrowwoodException$RowOutOfRange. (str kind " " (printable i) "; there are " size)))))

(defn- int-count
  "Returns the number of rows for `count`, in 32 bits."
  [^long size]
  (if (<= size Integer/MAX_VALUE)
    (int size)
    (throw (invalid-argument size " rows are more than `count` can return; `row-count` of the dataset returns them"))))

(deftype-once Dataset [^dev.arrowwood.Dataset java name ^Arena arena keys]
  Counted
  (count [_] (int-count (.rowCount java)))
  Indexed
  (nth [_ i] (values/row @keys (.row java (long i))))
  (nth [_ i none] (if (and (<= 0 i) (< i (.rowCount java))) (values/row @keys (.row java (long i))) none))
  ILookup
  (valAt [this column] (.valAt this column nil))
  (valAt [_ column none]
    (let [column-name (values/text column)]
      (if (some #{column-name} (.names (.schema java))) (->Column (.column java column-name) name) none)))
  IFn
  (invoke [_ column] (->Column (.column java (values/text column)) name))
  Sequential
  Seqable
  (seq [_] (let [keys @keys] (seq (c/map #(values/row keys (.row java (long %))) (range (.rowCount java))))))
  Iterable
  (iterator [this] (let [^List items (or (seq this) ())] (.iterator items)))
  IReduceInit
  (reduce [_ f init]
    (let [keys @keys] (reduce-range f init 0 (.rowCount java) (fn [i] (values/row keys (.row java (long i)))))))
  IReduce
  (reduce [this f]
    (let [end (.rowCount java) keys @keys read-at (fn [i] (values/row keys (.row java (long i))))]
      (if (zero? end) (f) (reduce-range f (read-at 0) 1 end read-at))))
  AutoCloseable
  (close [_] (when arena (.close arena))))

(defn- dataset
  "Wraps a dataset of the Java library, with a name to print."
  [^dev.arrowwood.Dataset java name]
  (->Dataset java name nil (delay (values/keys-of (.fields (.schema java))))))

(defn- ->java
  "Returns the dataset of the Java library."
  ^dev.arrowwood.Dataset [ds]
  (cond
    (instance? Dataset ds) (.-java ^Dataset ds)
    (instance? dev.arrowwood.Dataset ds) ds
    :else (throw (invalid-argument "not a dataset: " (printable ds) "; (open path) is one"))))

(def ^:private unnamed "The name of datasets of no file, as in tech.ml.dataset." "_unnamed")

(defn dataset-name
  "Returns the name that a dataset is printed with: the name of its file, or \"_unnamed\"."
  [ds]
  (if (instance? Dataset ds) (.-name ^Dataset ds) unnamed))

(defn- wrap-like
  "Wraps a dataset of the Java library that was derived from another dataset, with its name."
  [ds java]
  (dataset java (dataset-name ds)))

(defn java-dataset
  "Returns the dev.arrowwood.Dataset of a dataset, for calls of the Java library."
  ^dev.arrowwood.Dataset [ds]
  (->java ds))

(defn- in-place
  "Returns :longs or :doubles if the values of a column can be read from memory; nil if only cell by cell."
  [^dev.arrowwood.Column column]
  (let [type (.type (.field column))]
    (cond
      (and (instance? Type$Int type) (or (.signed ^Type$Int type) (< (.bits ^Type$Int type) 64))) :longs
      (and (instance? Type$Floating type) (= 64 (.bits ^Type$Floating type))) :doubles)))

(defn- has-nulls? [^dev.arrowwood.Column column]
  (some #(.isPresent (.validity ^Chunk %)) (.chunks column)))

(defn- row-reader
  "Returns a function from a row number of a column to its value."
  [^dev.arrowwood.Column column]
  (let [nulls? (delay (has-nulls? column))]
    (case (in-place column)
      :longs (let [numbers (.asLong column)]
               (if @nulls? #(when-not (.isNull numbers (long %)) (.get numbers (long %))) #(.get numbers (long %))))
      :doubles (let [numbers (.asDouble column)]
                 (if @nulls? #(when-not (.isNull numbers (long %)) (.get numbers (long %))) #(.get numbers (long %))))
      #(values/value (.get column (long %))))))

(defn- fold-doubles [^IFn$DDD f ^double init ^DoubleColumn numbers ^long start]
  (let [end (.rowCount numbers)]
    (loop [row start result init]
      (if (< row end) (recur (inc row) (.invokePrim f result (.get numbers row))) result))))

(defn- fold-longs [^IFn$LLL f ^long init ^LongColumn numbers ^long start]
  (let [end (.rowCount numbers)]
    (loop [row start result init]
      (if (< row end) (recur (inc row) (.invokePrim f result (.get numbers row))) result))))

(defn- fold-column [^dev.arrowwood.Column column f init start]
  (let [kind (in-place column)]
    (cond
      ;; A function of primitives can neither take nil nor return `reduced`.
      (and (instance? IFn$DDD f) (number? init) kind (not (has-nulls? column)))
      (fold-doubles f (double init) (.asDouble column) start)
      (and (instance? IFn$LLL f) (int? init) (= :longs kind) (not (has-nulls? column)))
      (fold-longs f (long init) (.asLong column) start)
      :else (reduce-range f init start (.rowCount (.dataset column)) (row-reader column)))))

(deftype-once Column [^dev.arrowwood.Column java name]
  Counted
  (count [_] (int-count (.rowCount (.dataset java))))
  Indexed
  (nth [_ i] (values/value (.get java (long i))))
  (nth [_ i none] (if (and (<= 0 i) (< i (.rowCount (.dataset java)))) (values/value (.get java (long i))) none))
  ILookup
  (valAt [this row] (.valAt this row nil))
  (valAt [_ row none]
    (if (and (int? row) (<= 0 (long row)) (< (long row) (.rowCount (.dataset java))))
      (values/value (.get java (long row)))
      none))
  IFn
  (invoke [_ row] (values/value (.get java (checked-index row (.rowCount (.dataset java)) "row"))))
  Sequential
  Seqable
  (seq [_] (seq (c/map (row-reader java) (range (.rowCount (.dataset java))))))
  Iterable
  (iterator [this] (let [^List items (or (seq this) ())] (.iterator items)))
  IReduceInit
  (reduce [_ f init] (fold-column java f init 0))
  IReduce
  (reduce [_ f]
    (if (zero? (.rowCount (.dataset java))) (f) (fold-column java f (values/value (.get java 0)) 1))))

(defn- ->java-column
  "Returns the column of the Java library."
  ^dev.arrowwood.Column [column]
  (if (instance? Column column)
    (.-java ^Column column)
    (throw (invalid-argument "not a column: " (printable column) "; (ds :name) is one"))))

;; ---- opening ----

(def ^:private open-options
  {:validate ReadOption/VALIDATE_ALL :copy ReadOption/COPY :strict ReadOption/STRICT :partial ReadOption/PARTIAL})

(def ^:private all-open-options [:validate :copy :strict :partial :arena])

(defn- read-options ^"[Ldev.arrowwood.ReadOption;" [options]
  (into-array ReadOption (c/map #(val %) (c/filter #(get options (key %)) open-options))))

(defn- last-name [file]
  (str (or (.getFileName (path file)) file)))

(defn open
  "Opens an Arrow file or stream, a table's directory, a directory of *.arrow files, or all files that match a glob;
  or a vector of paths with equal schemas, as one dataset. Reads metadata only, in microseconds whatever the size.

  Options, false unless given:
    :validate  check all values now, not when a column is first used as a whole
    :copy      read everything into memory first, which is safe even if others rewrite the file
    :strict    throw, naming the buffer, instead of copying
    :partial   accept a truncated file, up to its last whole batch
    :arena     :confined or :shared: the dataset is closed, by `with-open`, for one thread or all of them. Otherwise the
               files are unmapped when nothing refers to the dataset, its columns or their memory any longer."
  ([file] (open file nil))
  ([file options]
   (let [{:keys [arena]} (arguments/checked-options "open" all-open-options options)
         options (read-options options)
         owner (condp = arena
                 nil nil
                 :confined (Arena/ofConfined)
                 :shared (Arena/ofShared)
                 (throw (invalid-argument ":arena is " (printable arena) ", not :confined or :shared")))
         opened (try
                  (let [java (if (sequential? file)
                               (Arrowwood/open ^List (mapv path file) options)
                               (if owner
                                 (Arrowwood/open (path file) ^Arena owner options)
                                 (Arrowwood/open (path file) options)))]
                    (if (and owner (sequential? file)) (.in ^dev.arrowwood.Dataset java owner) java))
                  (catch Throwable e
                    (some-> ^Arena owner .close)
                    (throw e)))]
     (->Dataset opened (if (sequential? file) unnamed (last-name file)) owner
                (delay (values/keys-of (.fields (.schema ^dev.arrowwood.Dataset opened))))))))

(defn open-bytes
  "Opens an Arrow file or stream in a byte array, which is copied. Options: :validate, :copy, :strict and :partial, as
  of `open`."
  ([bytes] (open-bytes bytes nil))
  ([bytes options]
   (let [options (arguments/checked-options "open-bytes" (keys open-options) options)]
     (dataset (Arrowwood/openBytes bytes (read-options options)) unnamed))))

(defn read-csv
  "Reads a CSV file with a header line into memory.

  Options:
    :schema      the columns to read, matched by name, as `writer` takes them; default: all, with inferred types
    :dictionary  names of text columns to encode by dictionaries
    :delimiter   a character; default: comma"
  ([file] (read-csv file nil))
  ([file options]
   (let [{:keys [schema dictionary delimiter]}
         (arguments/checked-options "read-csv" [:schema :dictionary :delimiter] options)]
     (dataset (Arrowwood/readCsv
                (path file)
                (Arrowwood$CsvOptions. (Optional/ofNullable (some-> schema values/schema)) (mapv values/text dictionary)
                                       (char (or delimiter \,))))
              (last-name file)))))

(defn write
  "Writes an Arrow file, replacing what is at the path atomically. Returns the dataset.

  Options:
    :format       :file (default), with a footer for random access, or :stream
    :compression  :none (default), which can be opened in place, :lz4 or :zstd
    :max-rows     the maximum number of rows in a record batch; default: keep the batches"
  ([ds file] (write ds file nil))
  ([ds file options]
   (let [{:keys [format compression max-rows]}
         (arguments/checked-options "write" [:format :compression :max-rows] options)]
     (.write (->java ds) (path file)
             (WriteOptions. (values/enum WriteOptions$Format (or format :file))
                            (values/enum WriteOptions$Compression (or compression :none))
                            (long (or max-rows 0)))))
   ds))

;; ---- rows, columns and size ----

(defn row-count
  "Returns the number of rows. `count` returns it, too, up to 2,147,483,647."
  ^long [ds]
  (.rowCount (->java ds)))

(defn row
  "Returns row i as a map."
  [ds ^long i]
  (let [java (->java ds)]
    (values/row (if (instance? Dataset ds) @(.-keys ^Dataset ds) (values/keys-of (.fields (.schema java))))
                (.row java i))))

(defn schema
  "Returns the columns: a vector of maps of :name and :type, and, if they apply, :nullable false and :metadata."
  [ds]
  (mapv values/field-map (.fields (.schema (->java ds)))))

(defn column
  "Returns a column by its name or its index."
  [ds column]
  (->Column (if (int? column)
              (.column (->java ds) (int column))
              (.column (->java ds) (values/text column)))
            (dataset-name ds)))

(defn columns
  "Returns all columns."
  [ds]
  (mapv #(->Column % (dataset-name ds)) (.columns (->java ds))))

(defn batch-count
  "Returns the number of record batches."
  ^long [ds]
  (.batchCount (->java ds)))

(defn first-row
  "Returns the number of the first row in its table: rows keep their numbers when earlier ones are dropped."
  ^long [ds]
  (.firstRow (->java ds)))

(defn sorted-by
  "Returns the name of the column that the table is sorted by, or nil."
  [ds]
  (let [java (->java ds) column (.sortedBy java)]
    (when (.isPresent column) (keyword (.name ^Field (nth (.fields (.schema java)) (.getAsInt column)))))))

(defn footprint
  "Returns the bytes of the dataset by location: :mapped from files, :copied, and :resident in physical memory."
  [ds]
  (let [footprint (.footprint (->java ds))]
    {:mapped (.mapped footprint) :copied (.copied footprint) :resident (.resident footprint)}))

(defn validate
  "Checks all values; throws ArrowwoodException$InvalidData, naming path, batch, column and row. Returns the dataset."
  [ds]
  (.validate (->java ds))
  ds)

;; ---- queries ----

(defn- column-index ^long [ds column]
  (if (int? column) (long column) (.index (.schema (->java ds)) (values/text column))))

(defn select
  "Selects columns, in the given order."
  [ds columns]
  ;; The dataset is checked first: the columns may be endless.
  (let [java (->java ds)
        ordered (arguments/in-order "what is selected" columns)]
    (wrap-like ds (.select java (int-array (c/map #(column-index ds %) ordered))))))

(defn slice
  "Selects rows, or as many of them as there are."
  [ds start rows]
  (wrap-like ds (.slice (->java ds) (long start) (long rows))))

(def ^:private default-rows "The number of rows of `head` and `tail`." 5)

(defn head
  "Selects the first rows, 5 by default."
  ([ds] (head ds default-rows))
  ([ds rows] (wrap-like ds (.head (->java ds) (long rows)))))

(defn tail
  "Selects the last rows, 5 by default."
  ([ds] (tail ds default-rows))
  ([ds rows] (wrap-like ds (.tail (->java ds) (long rows)))))

(defn concat
  "Concatenates datasets with equal schemas, without copying."
  [& datasets]
  (wrap-like (first datasets) (dev.arrowwood.Dataset/concat (mapv ->java datasets))))

(defn refresh
  "Returns a dataset that includes the rows committed since."
  [ds]
  (wrap-like ds (.refresh (->java ds))))

(defn take
  "Copies rows by their numbers, in the given order; negative ones count from the end."
  [ds rows]
  (wrap-like ds (.take (->java ds) (long-array rows))))

(defn sample
  "Copies distinct random rows; the same seed gives the same ones."
  [ds rows seed]
  (wrap-like ds (.sample (->java ds) (long rows) (long seed))))

(defn shuffle
  "Shuffles all rows: a view, which copies nothing until columns are used as a whole."
  [ds seed]
  (wrap-like ds (.shuffle (->java ds) (long seed))))

(declare condition)

(defn- comparison ^Condition [operator operands]
  (let [col (Condition/col (values/text (first operands)))
        value (values/object (second operands))]
    (case operator
      := (if (nil? value) (.isNull col) (.eq col value))
      :not= (if (nil? value) (.not (.isNull col)) (.ne col value))
      :< (.lt col value)
      :<= (.le col value)
      :> (.gt col value)
      :>= (.ge col value)
      :in (.in col (object-array (c/map values/object (second operands))))
      :null (.isNull col))))

(def ^:private operand-counts
  "The minimum and maximum number of operands of each condition; nil for no maximum."
  {:= [2 2] :not= [2 2] :< [2 2] :<= [2 2] :> [2 2] :>= [2 2] :in [2 2] :null [1 1]
   :and [1 nil] :or [1 nil] :not [1 1]})

(defn- checked-condition
  "Returns the vector of a condition, after checking its operator and the number of its operands."
  [form]
  (when-not (vector? form)
    (throw (invalid-argument "a condition is a vector such as [:> :price 100], not " (printable form))))
  (let [[operator & operands] form
        [min-count max-count] (when (keyword? operator) (operand-counts operator))
        operand-count (c/count operands)]
    (when-not min-count
      (throw (invalid-argument "no condition " (printable operator)
               "; there are := :not= :< :<= :> :>= :in :null :and :or :not")))
    (when-not (and (<= (long min-count) operand-count)
                   (or (nil? max-count) (<= operand-count (long max-count))))
      (throw (invalid-argument operator " has " (if max-count min-count "one or more")
               (if (= 1 max-count) " operand" " operands") ", got " operand-count ": " (printable form))))
    form))

(defn condition
  "Returns the condition for a vector: [:> :price 100], also with := :not= :< :<= :>=; [:in :symbol [\"IBM\" \"AAPL\"]],
  [:null :price], [:and …], [:or …], [:not …]."
  ^Condition [form]
  (if (instance? Condition form)
    form
    (let [[operator & operands] (checked-condition form)]
      (case operator
        :and (reduce #(.and ^Condition %1 %2) (c/map condition operands))
        :or (reduce #(.or ^Condition %1 %2) (c/map condition operands))
        :not (.not (condition (first operands)))
        (comparison operator operands)))))

(defn filter
  "Copies the rows for which a condition is true, in order. Of a table that is sorted by a column, reads only the rows
  within its bounds. See `condition`."
  [ds where]
  (wrap-like ds (.filter (->java ds) (condition where))))

(defn between
  "Selects the rows whose value in the column that the table is sorted by lies between two others, both included, by
  binary search."
  [ds low high]
  (wrap-like ds (.between (->java ds) (values/object low) (values/object high))))

(defn- parse-aggregate [[name form]]
  (when-not (and (sequential? form) (<= 1 (c/count form) 2))
    (throw (invalid-argument "an aggregate is a vector such as [:mean :price], not " (printable form))))
  (let [[function column] form
        function (values/enum Aggregate$Function function)]
    (Aggregate. (values/text name) function (Optional/ofNullable (some-> column values/text)))))

(defn aggregate
  "Aggregates groups of rows with equal values, in one pass: a row for each group, in order of first appearance.

      (aw/aggregate ds [:symbol] {:n [:count] :mean [:mean :price]} {:where [:> :price 100]})

  Functions are :count, :sum, :mean, :median, :min, :max, :var, :std and :n-unique. The result's columns are in the
  order of the map, or of a vector of pairs where there are more than eight; all rows are one group if there are no
  columns to group by.

  Options:
    :where  a condition on the rows"
  ([ds by aggregates] (aggregate ds by aggregates nil))
  ([ds by aggregates options]
   (let [{:keys [where]} (arguments/checked-options "aggregate" [:where] options)]
     (wrap-like ds (.aggregate (->java ds)
                     ^List (mapv values/text (arguments/in-order "what is grouped by" by))
                     (Optional/ofNullable (some-> where condition))
                     (into-array Aggregate (c/map parse-aggregate (arguments/in-order "the result" aggregates))))))))

(defn describe
  "Describes each column: rows for count, null_count, mean, std, min, 25%, 50%, 75% and max."
  [ds]
  (wrap-like ds (.describe (->java ds))))

(defn collect
  "Copies all rows into one record batch in memory, on all cores."
  [ds]
  (wrap-like ds (.collect (->java ds))))

;; ---- columns ----

(defn field
  "Returns the name and type of a column, as `schema` does."
  [column]
  (values/field-map (.field (->java-column column))))

(defn sum
  "Returns the sum of the values, 0 if there are none."
  [column]
  (values/value (.sum (->java-column column))))

(defn- double-or-nil [^OptionalDouble number] (when (.isPresent number) (.getAsDouble number)))

(defn mean
  "Returns the mean, or nil if there are no values."
  [column]
  (double-or-nil (.mean (->java-column column))))

(defn var
  "Returns the sample variance, or nil if there are fewer than two values."
  [column]
  (double-or-nil (.var (->java-column column))))

(defn std
  "Returns the standard deviation, or nil if there are fewer than two values."
  [column]
  (double-or-nil (.std (->java-column column))))

(defn min
  "Returns the least value, or nil if there are none."
  [column]
  (values/value (optional (.min (->java-column column)))))

(defn max
  "Returns the greatest value, or nil if there are none."
  [column]
  (values/value (optional (.max (->java-column column)))))

(defn count
  "Returns the number of values that aren't nil."
  [column]
  (.count (->java-column column)))

(defn null-count
  "Returns the number of values that are nil."
  [column]
  (.nullCount (->java-column column)))

(defn n-unique
  "Returns the number of distinct values; nil counts as one."
  [column]
  (.nUnique (->java-column column)))

(defn any
  "Returns true if any value of a column of booleans is true."
  [column]
  (.any (->java-column column)))

(defn all
  "Returns true if no value of a column of booleans is false."
  [column]
  (.all (->java-column column)))

(defn quantile
  "Returns an exact quantile of a column, for a share from 0 to 1; nil if there are no values."
  [column share]
  (double-or-nil (.quantile (->java-column column) (double share))))

(defn approx-quantile
  "Returns a quantile of a fixed sample of 1,048,576 rows; nil if there are no values."
  [column share]
  (double-or-nil (.approxQuantile (->java-column column) (double share))))

(defn value-counts
  "Counts the distinct values of a column, most frequent first, in columns of its name and count."
  [column]
  (dataset (.valueCounts (->java-column column)) (.-name ^Column column)))

(defn doubles
  "Returns the dev.arrowwood.DoubleColumn of a column, for loops over primitives: (.get (aw/doubles column) row)."
  ^DoubleColumn [column]
  (.asDouble (->java-column column)))

(defn longs
  "Returns the dev.arrowwood.LongColumn of a column, for loops over primitives; times are counts of their units."
  ^LongColumn [column]
  (.asLong (->java-column column)))

(def ^:private chunk-options {:checked ChunkOption/CHECKED :aligned ChunkOption/ALIGNED})

(defn chunks
  "Returns the memory of a column in place, a dev.arrowwood.Chunk for each batch.

  Options:
    :checked  offsets, keys and text are checked
    :aligned  buffers that aren't aligned are copied"
  ([column] (chunks column nil))
  ([column options]
   (arguments/checked-options "chunks" (keys chunk-options) options)
   (.chunks (->java-column column) ^"[Ldev.arrowwood.ChunkOption;"
            (into-array ChunkOption (keep (fn [[key option]] (when (get options key) option)) chunk-options)))))

;; ---- in parallel ----

(def ^:private part-rows 262144)

(defn- split
  "Splits a column or dataset into parts of a fixed size, so that results don't depend on the number of cores."
  [whole]
  (if (instance? Column whole)
    (let [java (->java-column whole)
          fields (.fields (.schema (.dataset java)))
          index (c/count (take-while #(not (identical? % (.field java))) fields))
          ;; Only the column is sliced.
          dataset (.select (.dataset java) (int-array [index]))]
      (mapv #(->Column (.column (.slice dataset (long %) (long part-rows)) 0) (.-name ^Column whole))
            (range 0 (.rowCount dataset) part-rows)))
    (let [java (->java whole)]
      (mapv #(wrap-like whole (.slice java (long %) (long part-rows)))
            (range 0 (.rowCount java) part-rows)))))

(defn map-reduce
  "Calls f with parts of a column or dataset, each a column or dataset of 262,144 rows, on all cores, and reduces the
  results in order. Without rows: the result of (combine).

      (aw/map-reduce (ds :price) #(reduce + %) +)"
  [whole f combine]
  (let [parts (split whole)]
    (reduce combine (.toArray (.mapToObj (.parallel (IntStream/range 0 (c/count parts)))
                                         (reify IntFunction (apply [_ i] (f (nth parts i)))))))))

(defn- fold [whole combine f]
  (map-reduce whole #(reduce f (combine) %) (fn ([] (combine)) ([left right] (combine left right)))))

;; Supports clojure.core.reducers/fold, but ignores its part size.
(extend-protocol reducers/CollFold
  Dataset
  (coll-fold [ds _ combine f] (fold ds combine f))
  Column
  (coll-fold [column _ combine f] (fold column combine f)))

;; ---- files as memory and as messages ----

(defn map
  "Maps a file of any size into memory, read-only: a java.lang.foreign.MemorySegment, which dtype-next reads as a native
  buffer, and `typed` as numbers. The collector unmaps it."
  ^MemorySegment [file]
  (with-open [channel (FileChannel/open (path file) (into-array OpenOption [StandardOpenOption/READ]))]
    (.map channel FileChannel$MapMode/READ_ONLY 0 (.size channel) (Arena/ofAuto))))

(defn typed
  "Returns memory as numbers of a type: :int8 to :int64, :uint8 to :uint64, :float32, :float64, or :bit. The result
  has `nth`, `count`, `seq` and `reduce`, and is a function of indexes of any size. Offset and size are in bytes."
  ([segment type] (memory/typed segment type))
  ([^MemorySegment segment type offset size] (memory/typed (.asSlice segment (long offset) (long size)) type)))

(defn text
  "Decodes bytes start to end of typed memory as UTF-8."
  [bytes start end]
  (memory/text (.-segment ^arrowwood.impl.memory.Typed bytes) (long start) (long end)))

(defn- element-type
  "Returns the type of the numbers in a buffer of a field. `keys` is the type of a dictionary's keys, or nil."
  [type keys name]
  (let [java ^Type (.type ^Field (first (.fields (Schema/parse (str "c: " type)))))
        large? (str/starts-with? type "large")]
    (case name
      "validity" :bit
      ("offsets" "sizes") (if large? :int64 :int32)
      "keys" (keyword keys)
      "values" (cond
                 (instance? Type$Bool java) :bit
                 (instance? Type$Int java) (keyword type)
                 (instance? Type$Floating java) (if (= "float16" type) :int16 (keyword type))
                 (re-find #"date32|time32" type) :int32
                 (re-find #"date64|time64|timestamp|duration" type) :int64
                 :else :int8)
      :int8)))

(defn- compact-map
  "Returns a map in the order of the entries, without nil, false and empty values; its keys are in kebab case."
  [entries]
  (apply array-map (mapcat (fn [[key value]]
                             (when-not (or (nil? value) (false? value) (and (coll? value) (empty? value)))
                               [(keyword (str/replace (name key) "_" "-")) value]))
                           entries)))

(defn- pairs->map [list]
  (into {} (c/map (juxt :key :value)) list))

(defn- message-map [row]
  (let [field (fn [{:keys [depth] :as field}]
                (compact-map (cond-> (update field :metadata pairs->map) (zero? (long depth)) (dissoc :depth))))
        buffer (fn [buffer] (apply array-map (mapcat #(find buffer %) [:field :name :type :offset :length])))]
    (-> row
        (update :fields #(mapv field %))
        (update :nodes #(mapv compact-map %))
        (update :buffers #(mapv buffer %))
        (update :metadata pairs->map)
        compact-map)))

(defn- add-buffer-types
  "Adds the type of its numbers to each buffer of messages. The first message has the fields."
  [rows]
  (let [fields (:fields (first rows))
        fields-by-name (into {} (c/map (juxt :name identity)) fields)
        fields-by-dictionary (into {} (keep #(when (:dictionary %) [(:dictionary %) %])) fields)
        buffer-type (fn [dictionary {:keys [field name]}]
                      (let [{:keys [type keys]} (or (get fields-by-dictionary dictionary) (get fields-by-name field))]
                        (if type (element-type type keys name) :int8)))]
    (c/map (fn [{:keys [dictionary] :as row}]
             (update row :buffers (fn [buffers] (mapv #(assoc % :type (buffer-type dictionary %)) buffers))))
           rows)))

(defn messages
  "Returns the messages of a dataset's files, or of a file, as data: a vector of maps of :kind, :offset, :body-offset,
  :rows, :fields, :nodes, :buffers and so on, without nil, false and empty values. Offsets of buffers are from
  :body-offset on."
  [ds]
  (let [ds (if (or (instance? Dataset ds) (instance? dev.arrowwood.Dataset ds)) ds (open ds))
        java (.messages (->java ds))
        keys (values/keys-of (.fields (.schema java)))]
    (mapv message-map (add-buffer-types (mapv #(values/row keys (.row java (long %))) (range (.rowCount java)))))))

(defn buffer
  "Returns a buffer of a message as typed memory, by the names of the field and of the buffer. The segment is the mapped
  file of the message."
  [segment message field name]
  (let [field (values/text field)
        name (values/text name)
        buffers (:buffers message)
        {:keys [offset length type]} (first (c/filter #(and (= field (:field %)) (= name (:name %))) buffers))]
    (when-not offset
      (throw (invalid-argument "the message has no buffer " (printable field) " " (printable name) "; there are "
               (printable (mapv (juxt :field :name) buffers)))))
    (when-let [codec (:compression message)]
      (throw (invalid-argument "the buffers of the message are compressed: " codec)))
    (typed segment type (+ (long (:body-offset message)) (long offset)) length)))

;; ---- tables that grow ----

(def ^:private all-writer-options
  [:sorted-by :late :index :dictionary :sync :sync-interval-ms :segment-rows :force])

(defn- writer-options
  ^WriterOptions [{:keys [sync sync-interval-ms segment-rows dictionary sorted-by late index force]}]
  (cond-> WriterOptions/DEFAULT
    sync (as-> options (.sync ^WriterOptions options (values/enum WriterOptions$Sync sync)))
    sync-interval-ms (as-> options (.syncEvery ^WriterOptions options (Duration/ofMillis sync-interval-ms)))
    segment-rows (as-> options (.segmentRows ^WriterOptions options (long segment-rows)))
    (seq dictionary) (as-> options (.dictionary ^WriterOptions options (values/texts dictionary)))
    sorted-by (as-> options (.sortedBy ^WriterOptions options (values/text sorted-by)))
    late (as-> options (.late ^WriterOptions options (values/enum WriterOptions$Late late)))
    (seq index) (as-> options (.index ^WriterOptions options (values/texts index)))
    force (as-> options (.force ^WriterOptions options))))

(defn writer
  "Opens the table in a directory for writing, or creates it. Use it in `with-open`, and `commit!` within it: closing
  syncs, and discards the rows appended since the last commit, so that an exception never leaves half a batch. Their
  number is logged as a warning of the System.Logger called dev.arrowwood.

  The schema is text, \"ts: timestamp[us, UTC] not null, price: float64\"; or pairs of names and types,
  {:ts \"timestamp[us, UTC]\" :price :float64}, in a vector of pairs where there are more than eight, because larger
  maps have no order and are refused; or as `schema` returns it. Without one, the table has to exist.

  Options:
    :sorted-by         a column whose values never decrease
    :late              the treatment of rows that are less than an earlier row in that column: :refuse (default of a new
                       table), or :accept, which keeps them where they arrive
    :index             names of columns to index: conditions on them read only blocks of rows that may match
    :dictionary        names of text columns to store as dictionaries
    :sync              when commits are synced to disk: :interval (default), :never, :commit
    :sync-interval-ms  default: 1000
    :segment-rows      the maximum number of rows in a segment
    :force             true: also write to network file systems"
  (^TableWriter [directory] (TableWriter/open (path directory)))
  (^TableWriter [directory schema] (writer directory schema nil))
  (^TableWriter [directory schema options]
   (TableWriter/open (path directory) (values/schema schema)
                     (writer-options (arguments/checked-options "writer" all-writer-options options)))))

(defn append!
  "Appends one or more rows. A row is a map, whose missing columns are nil, or a vector of values in the order of the
  columns. Rows are a dataset, which is appended as a whole or not at all, or anything reducible: if a row is refused,
  the rows before it remain appended. Returns the writer."
  [^TableWriter writer rows]
  (cond
    (instance? Dataset rows) (.append writer (->java rows))
    (instance? dev.arrowwood.Dataset rows) (.append writer ^dev.arrowwood.Dataset rows)
    (map? rows) (.append writer (values/java-row rows))
    (instance? java.lang.Record rows) (.append writer ^java.lang.Record rows)
    (and (vector? rows) (not (or (map? (first rows)) (sequential? (first rows)) (empty? rows))))
    (.appendRow writer (object-array (c/map values/object rows)))
    :else (reduce (fn [_ row]
                    (if (map? row)
                      (.append writer (values/java-row row))
                      (.appendRow writer (object-array (c/map values/object row)))))
                  nil rows))
  writer)

(defn- java-positions ^Map [positions]
  (let [^Map java (HashMap.)]
    (run! (fn [[name position]] (.put java (values/text name) (long position))) positions)
    java))

(defn commit!
  "Makes all appended rows visible to readers, atomically. Returns the writer.

  Options:
    :positions  a map from names to integers, how far a producer has read from its sources: part of the commit, visible
                with its rows, and the same after a crash; other positions keep their values
    :durable    true: also syncs to disk, so that rows and positions survive a power failure"
  ([^TableWriter writer] (.commit writer) writer)
  ([^TableWriter writer options]
   (let [{:keys [durable positions]} (arguments/checked-options "commit!" [:positions :durable] options)]
     (if positions
       (.commit writer (java-positions positions))
       (.commit writer))
     (when durable (.waitDurable writer)))
   writer))

(defn positions
  "Returns the positions of the newest commit of a writer, or of a dataset's rows, by name: see `commit!`."
  [writer-or-dataset]
  (into (sorted-map) (if (instance? TableWriter writer-or-dataset)
                       (.positions ^TableWriter writer-or-dataset)
                       (.positions (->java writer-or-dataset)))))

(defn wait-durable!
  "Waits until all committed rows would survive a power failure; others can commit meanwhile. Returns the writer."
  [^TableWriter writer]
  (.waitDurable writer)
  writer)

(defn sync!
  "Syncs all committed rows to disk. Returns the writer."
  [^TableWriter writer]
  (.sync writer) writer)

(defn rollback!
  "Discards the rows appended since the last commit. Returns the writer."
  [^TableWriter writer]
  (.rollback writer)
  writer)

(defn compact!
  "Rewrites all sealed segments as dense Arrow files; returns their number."
  [^TableWriter writer]
  (.compact writer))

(defn drop-before!
  "Removes the segments that contain only rows before a number; returns the number of removed rows."
  [^TableWriter writer row]
  (.dropBefore writer (long row)))

(defn discard!
  "Closes the writer without a sync or a warning: rows appended since the last commit are lost."
  [^TableWriter writer]
  (.discard writer))

(defn progress
  "Returns the row counts of a writer: :rows appended, :committed-rows, :durable-rows, and :dropped-rows, which were
  lost in a system crash before the writer was opened."
  [^TableWriter writer]
  (let [^TableWriter$State state (.progress writer)]
    {:rows (.rows state) :committed-rows (.committedRows state) :durable-rows (.durableRows state)
     :dropped-rows (.droppedRows state)}))

;; ---- following ----

(defn- next-rows
  "Returns the next rows of a follower; nil if none arrive in time, or it is closed."
  [^Follow follow timeout]
  (try (optional (.next follow timeout)) (catch ArrowwoodException$Closed _ nil)))

(deftype-once Follower [^Follow java ^Duration timeout name]
  IReduceInit
  (reduce [_ f init]
    (loop [result init]
      (let [more (next-rows java timeout)]
        (if (nil? more)
          result
          (let [result (f result (dataset more name))]
            (if (reduced? result) @result (recur result)))))))
  AutoCloseable
  (close [_] (.close java)))

(def ^:private ^Duration forever (Duration/ofDays 36500))

(defn follow
  "Follows a table, given as a dataset or by its path. `reduce` gets a dataset for each commit, or for several at
  once, and waits for the next one. It ends with `reduced`, if no commit comes within the timeout, or when the
  follower is closed, even by another thread. A second `reduce` continues where the first one ended.

      (with-open [ticks (aw/follow \"ticks\" {:timeout-ms 1000})]
        (reduce (fn [n rows] (+ n (count rows))) 0 ticks))

  Options:
    :from        the number of the first row; default: 0; -1: the next one committed
    :timeout-ms  default: wait without end"
  ([table] (follow table nil))
  ([table options]
   (let [{:keys [from timeout-ms]} (arguments/checked-options "follow" [:from :timeout-ms] options)
         ds (if (or (instance? Dataset table) (instance? dev.arrowwood.Dataset table)) table (open table))]
     (->Follower (.follow (->java ds) (long (or from 0)))
                 (if timeout-ms (Duration/ofMillis timeout-ms) forever)
                 (dataset-name ds)))))

(defn next!
  "Returns the rows committed since the last call, as a dataset, as soon as there are any; nil if there are none in
  time."
  [^Follower follower timeout-ms]
  (some-> (optional (.next ^Follow (.-java follower) (Duration/ofMillis timeout-ms))) (dataset (.-name follower))))

;; ---- maintenance ----

(defn- report-map [^Report report]
  {:rows (.rows report) :batches (.batches report) :segments (.segments report) :damaged (.damaged report)
   :kept (.kept report)
   :given-up (let [rows (.givenUp report)] (when (.isPresent rows) (.getAsLong rows)))
   :findings (mapv (fn [^Report$Finding finding]
                     {:path (.path finding)
                      :offset (let [offset (.offset finding)] (when (.isPresent offset) (.getAsLong offset)))
                      :message (.message finding)
                      :damage? (.isDamage finding)})
                   (.findings report))
   :moved (vec (.moved report))})

(defn check
  "Checks the structure and all values of a file, table, directory or glob. Damage is counted and listed:
  :rows, :batches, :segments, :damaged, :findings."
  [file]
  (report-map (Arrowwood/check (path file))))

(defn repair!
  "Checks, and keeps the rows before the first damage: as `check`, with :kept, :given-up and :moved files."
  [file]
  (report-map (Arrowwood/repair (path file))))

(defn stat
  "Returns facts about a table: :segments, :dense, :first-row, :end, :durable-end, :sequence, :disk, :apparent,
  :segment-rows,
  :writer, :live?."
  [table]
  (let [^TableStat stat (Arrowwood/stat (path table))]
    {:segments (.segments stat) :dense (.dense stat) :first-row (.firstRow stat) :end (.end stat)
     :durable-end (.durableEnd stat) :sequence (.sequence stat) :disk (.disk stat) :apparent (.apparent stat)
     :segment-rows (let [rows (.segmentRows stat)] (when (.isPresent rows) (.getAsLong rows)))
     :writer (let [writer (.writer stat)] (when (.isPresent writer) (.getAsInt writer)))
     :live? (.isLive stat)}))

;; ---- printing ----

(def ^:dynamic *print-rows* "The maximum number of rows that are printed of a dataset." 20)

(defn- numeric? [^Field field]
  (let [type (.type field)]
    (or (instance? Type$Int type) (instance? Type$Floating type))))

(defn- cell-texts [^Field field cells]
  (if (instance? Type$Floating (.type field))
    (c/map #(or % "") (print/floats cells))
    (c/map print/cell cells)))

(defn- table-text [^dev.arrowwood.Dataset java]
  (let [rows (.rowCount java)
        half (quot (long *print-rows*) 2)
        long? (< (long *print-rows*) rows)
        row-numbers (if long? (c/concat (range half) (range (- rows (inc half)) rows)) (range rows))
        cells (mapv #(.toArray (.row java (long %))) row-numbers)]
    (print/table
      (map-indexed (fn [i ^Field field]
                     (let [texts (cell-texts field (c/map #(values/value (aget ^objects % i)) cells))
                           [before after] (split-at half texts)]
                       {:name (.name field) :number? (numeric? field)
                        :cells (if long? (c/concat before ["..."] after) texts)}))
                   (.fields (.schema java))))))

(defmethod print-method Dataset [^Dataset ds ^Writer out]
  (let [java (->java ds)
        columns (c/count (.fields (.schema java)))]
    (.write out (str (.-name ds) " [" (.rowCount java) " " columns "]:\n\n" (table-text java)))))

(def ^:private max-printed-values 20)

(defmethod print-method Column [^Column column ^Writer out]
  (let [java (->java-column column)
        field (.field java)
        rows (.rowCount (.dataset java))
        printed (c/min max-printed-values rows)]
    (.write out (str "#arrowwood.column<" (.type field) ">[" rows "]\n" (.name field) "\n"))
    (memory/print-items (c/map #(values/value (.get java (long %))) (range printed)) (< printed rows) out)))

(defmethod print-method Follower [^Follower follower ^Writer out]
  (.write out (str "#arrowwood.follower " (.-name follower))))
