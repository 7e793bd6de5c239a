(ns arrowwood.types-test
  "Each type there is, by each way that Clojure has, against what Rust reads; and the table of docs/tasks/clojure.md."
  (:require
   [arrowwood.core :as aw]
   [arrowwood.impl.values :as values]
   [arrowwood.programs :as programs]
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is]])
  (:import
   (clojure.lang BigInt)
   (dev.arrowwood ArrowwoodException$InvalidArgument ArrowwoodException$Unsupported Chunk Field Type Type$Binary Type$Date Type$Decimal Type$Dictionary Type$Duration Type$FixedBinary Type$FixedList Type$Floating Type$Int Type$Interval Type$Layout Type$ListLayout Type$ListOf Type$MapOf Type$RunEndEncoded Type$Struct Type$Text Type$Time Type$Timestamp Type$Union Type$Unit)
   (java.lang.foreign MemorySegment)
   (java.time Duration Instant LocalDate LocalDateTime LocalTime ZoneOffset)
   (java.util HexFormat)))

;; ---- values in the spelling of examples/samples, which every language can make without rounding ----

(defn- plain ^Type [type]
  (condp instance? type
    Type$Dictionary (recur (.values ^Type$Dictionary type))
    Type$RunEndEncoded (recur (.type (.values ^Type$RunEndEncoded type)))
    type))

(defn- hex [bytes] (str "0x" (.formatHex (HexFormat/of) bytes)))

(defn- timed [what ^Type$Unit unit nanos zone]
  (let [each (quot 1000000000 (.perSecond unit))]
    (str what " " (quot nanos each) (when-not (zero? (rem nanos each)) "?") unit (when zone (str " " zone)))))

(defn- nanos [seconds nanos] (+' (*' seconds 1000000000) nanos))

(defn- unit-of ^Type$Unit [type]
  (condp instance? type
    Type$Time (.unit ^Type$Time type)
    Type$Timestamp (.unit ^Type$Timestamp type)
    Type$Duration (.unit ^Type$Duration type)))

(defn- zone [type] (when (instance? Type$Timestamp type) (.orElse (.zone ^Type$Timestamp type) nil)))

(defn- what [type]
  (condp instance? type Type$Time "time" Type$Timestamp "timestamp" Type$Duration "duration" nil))

(declare spell)

(defn- members [fields value]
  (into {} (map (fn [^Field field] [(.name field) (spell ((keyword (.name field)) value) (.type field))])) fields))

(defn- spell [value given]
  (let [type (plain given)]
    (cond
      (nil? value) nil
      (boolean? value) value
      (and (int? value) (what type)) (str (what type) " " value (unit-of type) (when-let [zone (zone type)] (str " " zone)))
      (or (int? value) (instance? BigInt value)) (str value)
      (float? value) (when (Double/isFinite value) (double value))
      (decimal? value) (str (.unscaledValue ^BigDecimal value) "e-" (.scale ^BigDecimal value))
      (string? value) value
      (bytes? value) (hex value)
      (uuid? value) (str "0x" (str/replace (str value) "-" ""))
      (instance? LocalDate value) (str "date " (.toEpochDay ^LocalDate value))
      (instance? LocalTime value) (timed "time" (unit-of type) (.toNanoOfDay ^LocalTime value) nil)
      (instance? Instant value)
      (timed "timestamp" (unit-of type) (nanos (.getEpochSecond ^Instant value) (.getNano ^Instant value)) (zone type))
      (instance? LocalDateTime value)
      (timed "timestamp" (unit-of type)
             (nanos (.toEpochSecond ^LocalDateTime value ZoneOffset/UTC) (.getNano ^LocalDateTime value)) nil)
      (instance? Duration value)
      (timed "duration" (unit-of type) (nanos (.getSeconds ^Duration value) (.getNano ^Duration value)) nil)
      (instance? Type$Interval type) (str/join " " ["interval" (:months value) (:days value) (:nanoseconds value)])
      (instance? Type$Struct type) (members (.members ^Type$Struct type) value)
      (instance? Type$Union type)
      (let [field (first (filter #(= (values/text (key value)) (.name ^Field %)) (.members ^Type$Union type)))]
        {(.name ^Field field) (spell (val value) (.type ^Field field))})
      (instance? Type$MapOf type)
      (mapv (fn [entry] [(spell (key entry) (.type (.key ^Type$MapOf type)))
                         (spell (val entry) (.type (.value ^Type$MapOf type)))])
            value)
      (instance? Type$ListOf type) (mapv #(spell % (.type (.item ^Type$ListOf type))) value)
      (instance? Type$FixedList type) (mapv #(spell % (.type (.item ^Type$FixedList type))) value)
      :else (throw (AssertionError. (str (class value) " of " type))))))

(defn- fields [ds] (.fields (.schema (aw/java-dataset ds))))

(defn- names-differ?
  "Whether fields, and the members of each struct below, have different names."
  [fields]
  (and (apply distinct? nil (map #(.name ^Field %) fields))
       (every? (fn [^Field field]
                 (let [type (plain (.type field))]
                   (condp instance? type
                     Type$Struct (names-differ? (.members ^Type$Struct type))
                     Type$ListOf (names-differ? [(.item ^Type$ListOf type)])
                     true)))
               fields)))

(defn by-rows
  "The rows of a dataset, spelled."
  [ds]
  (mapv (fn [row] (mapv (fn [^Field field] (spell ((keyword (.name field)) row) (.type field))) (fields ds))) ds))

(defn- by-columns [ds]
  (let [columns (mapv (fn [column ^Field field] (mapv #(spell % (.type field)) column)) (aw/columns ds) (fields ds))]
    (mapv (fn [i] (mapv #(nth % i) columns)) (range (aw/row-count ds)))))

(defn- by-cells [ds]
  (let [columns (aw/columns ds)]
    (mapv (fn [i] (mapv (fn [column ^Field field] (spell (nth column i) (.type field))) columns (fields ds)))
          (range (aw/row-count ds)))))

(defn- read-in-all-ways [ds rows what]
  (if (names-differ? (fields ds))
    (is (= rows (by-rows ds)) (str what " by rows"))
    (is (thrown? IllegalArgumentException (by-rows ds)) (str what " has two columns or members of one name")))
  (when (every? #(names-differ? [%]) (fields ds))
    (is (= rows (by-columns ds)) (str what " by columns"))
    (is (= rows (by-cells ds)) (str what " by cells"))))

(def ^:private samples
  (delay (let [folder (programs/folder)]
           (programs/run (programs/samples) "write" folder)
           {:folder folder :expected (programs/json (slurp (io/file folder "expected.json")))})))

(deftest samples-are-read-in-all-ways
  (let [{:keys [folder expected]} @samples]
    (is (< 400 (count expected)))
    (doseq [[name sample] expected]
      (read-in-all-ways (aw/open (io/file folder name)) (get sample "rows") name))))

(deftest golden-files-are-read-in-all-ways
  (if-let [golden (programs/golden)]
    (let [folder (programs/folder)]
      (doseq [file (file-seq golden)
              :let [[_ stem ending] (re-matches #"(.*)\.(arrow_file|stream)" (.getName ^java.io.File file))]
              :when stem]
        (io/copy file (io/file folder (str (.getName (.getParentFile ^java.io.File file)) "-" stem
                                           ({"arrow_file" ".arrow" "stream" ".stream"} ending)))))
      (let [lines (str/split-lines (programs/run (programs/samples) "read" folder))]
        (is (< 80 (count lines)))
        (doseq [line lines :let [{:strs [file rows]} (programs/json line)]]
          (read-in-all-ways (aw/open (io/file folder file)) rows file))))
    (is (nil? (println "test-jvm: Arrow's golden files are not here")))))

;; ---- the matrix ----

(defn- mappings [file]
  (let [name (str (.toRealPath (.toPath ^java.io.File file) (make-array java.nio.file.LinkOption 0)))]
    (for [line (java.nio.file.Files/readAllLines (java.nio.file.Path/of "/proc/self/maps" (make-array String 0))) :when (str/ends-with? line name)]
      (mapv #(Long/parseUnsignedLong % 16) (str/split (first (str/split line #" ")) #"-")))))

(defn- buffers [^Chunk chunk]
  (concat (filter #(pos? (.byteSize ^MemorySegment %))
                  (concat [(.values chunk) (.offsets chunk) (.sizes chunk) (.data chunk)]
                          (when (.isPresent (.validity chunk)) [(.get (.validity chunk))])
                          (.variadic chunk)))
          (mapcat buffers (.children chunk))
          (when (.isPresent (.dictionary chunk)) (buffers (.get (.dictionary chunk))))))

(defn- in-place? [file ds rows]
  (read-in-all-ways ds rows file)
  (let [ranges (mappings file)]
    (is (seq ranges) (str "nothing is mapped of " file))
    (every? (fn [^MemorySegment buffer]
              (some (fn [[low high]] (<= low (.address buffer) (+ (.address buffer) (.byteSize buffer)) high)) ranges))
            (mapcat buffers (aw/chunks (aw/column ds 0))))))

(defn- written? [ds rows]
  (doseq [options [nil {:format :stream :compression :zstd}]]
    (let [file (io/file (programs/folder) "written")]
      (aw/write ds file options)
      (is (= (aw/schema ds) (aw/schema (aw/open file))))
      (is (= rows (by-rows (aw/open file))) (str "written " options))))
  true)

(defn- appended? [ds rows append]
  (let [table (io/file (programs/folder) "table")]
    (try
      (with-open [writer (aw/writer table (.schema (aw/java-dataset ds)))] (append writer) (aw/commit! writer))
      (is (= rows (by-rows (aw/open table))) "appended to a table")
      true
      (catch ArrowwoodException$Unsupported _ false)
      (catch ArrowwoodException$InvalidArgument e
        (is (some #(str/includes? (ex-message e) %) ["dataset" "in batches"]) (ex-message e))
        false))))

(defn- family [type]
  (let [wide? (fn [layout] (not= Type$Layout/VIEW layout))
        inner (fn [type] (if (instance? Type$Int type) "integers" "text"))
        code #(str/join ", " (map (fn [name] (str "`" name "`")) %))]
    (condp instance? type
      Type$Int (if (.signed ^Type$Int type) "`int8` … `int64`" "`uint8` … `uint64`")
      Type$Floating (if (= 64 (.bits ^Type$Floating type)) "`float64`" (code ["float16" "float32"]))
      Type$Decimal "`decimal32` … `decimal256`"
      Type$Timestamp (if (.isPresent (.zone ^Type$Timestamp type)) "`timestamp[…, zone]`" "`timestamp[…]`")
      Type$Time (code ["time32" "time64"])
      Type$Duration "`duration`"
      Type$Date (code ["date32" "date64"])
      Type$Interval "`interval`"
      Type$Text (if (wide? (.layout ^Type$Text type)) (code ["utf8" "large_utf8"]) "`utf8_view`")
      Type$Binary (if (wide? (.layout ^Type$Binary type)) (code ["binary" "large_binary"]) "`binary_view`")
      Type$FixedBinary "`fixed_size_binary`"
      Type$ListOf (if (#{Type$ListLayout/NORMAL Type$ListLayout/LARGE} (.layout ^Type$ListOf type))
                    (code ["list" "large_list"]) (code ["list_view" "large_list_view"]))
      Type$FixedList "`fixed_size_list`"
      Type$Struct "`struct`"
      Type$MapOf "`map`"
      Type$Union (code ["sparse_union" "dense_union"])
      Type$Dictionary (str "`dictionary`, of " (inner (.values ^Type$Dictionary type)))
      Type$RunEndEncoded (str "`run_end_encoded`, of " (inner (.type (.values ^Type$RunEndEncoded type))))
      (str "`" type "`"))))

(defn- shown-class [type value]
  (cond
    (instance? Type$Interval type) "`{:months … :days … :nanoseconds …}`"
    (instance? Type$Union type) "`[:member value]`"
    (instance? Type$MapOf type) "`[[key value] …]`"
    (instance? Type$Struct type) "`{:member value …}`"
    (or (int? value) (instance? BigInt value)) (if (and (instance? Type$Int type) (not (.signed ^Type$Int type)))
                                                 "`Long`, `BigInt`" "`Long`")
    (bytes? value) "`byte[]`"
    (vector? value) "vector"
    :else (str "`" (.getSimpleName (class value)) "`")))

(defn- line [file sample]
  (let [ds (aw/open file)
        rows (get sample "rows")
        type (plain (.type ^Field (first (fields ds))))
        classes (distinct (map #(shown-class type %) (remove nil? (aw/column ds 0))))
        mark #(if % "✓" "–")]
    (str/join " | " [(family (.type ^Field (first (fields ds)))) (if (seq classes) (str/join ", " classes) "`nil`")
                     (mark (in-place? file ds rows)) (mark (written? ds rows))
                     (mark (appended? ds rows #(aw/append! % ds)))
                     (mark (appended? ds rows #(aw/append! % (seq ds))))])))

(defn- type? [sample]
  (try (boolean (dev.arrowwood.Schema/parse (str "c: " sample))) (catch IllegalArgumentException _ false)))

(deftest the-table-of-the-page-is-true
  (let [{:keys [folder expected]} @samples
        lines (for [[name sample] expected
                    :when (and (str/ends-with? name "_plain.arrow") (type? (get sample "sample")))]
                (line (io/file folder name) sample))
        table (str/join "\n" (concat ["| Arrow | Clojure | read, in place | written | appended as a dataset | as maps |"
                                      "|---|---|---|---|---|---|"]
                                     (map #(str "| " % " |") (sort (distinct lines)))))
        page (slurp (io/file (System/getProperty "arrowwood.docs") "tasks" "clojure.md"))]
    (is (< 25 (count (distinct lines))))
    (is (= (count (distinct lines)) (count (distinct (map #(first (str/split % #" \| ")) lines)))) "of one family")
    (is (str/includes? page table) (str "docs/tasks/clojure.md lacks this table:\n" table))))
