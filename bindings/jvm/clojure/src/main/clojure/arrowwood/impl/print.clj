(ns arrowwood.impl.print
  "Formats datasets as text, in the layout of tech.ml.dataset."
  {:no-doc true}
  (:refer-clojure :exclude [floats])
  (:require
   [clojure.string :as str])
  (:import
   (java.math BigDecimal RoundingMode)
   (java.text DecimalFormat DecimalFormatSymbols)
   (java.util HexFormat Locale)))

(set! *warn-on-reflection* true)

(def ^:private max-decimals 8)
(def ^:private max-digits
  "A number with so many digits before the point, or zeros after it, has its column printed in scientific notation."
  8)

(defn- digits
  "Counts the digits of a positive number before the point; zeros after it count as negative."
  ^long [^double x]
  (inc (long (Math/floor (Math/log10 x)))))

(defn- decimals
  "Counts the digits that a number needs after the point, at least one."
  ^long [^double x]
  (-> (BigDecimal/valueOf x) (.setScale (int max-decimals) RoundingMode/HALF_UP) .stripTrailingZeros .scale (max 1)))

(defn- ->double ^double [x]
  ;; A float means its shortest decimal.
  (if (instance? Float x) (Double/parseDouble (str x)) (double x)))

(defn- format-number
  "Formats a number, or writes NaN and infinities as tech.ml.dataset does."
  [^DecimalFormat format ^double x]
  (cond
    (Double/isNaN x) "NaN"
    (Double/isInfinite x) (if (pos? x) "Inf" "-Inf")
    :else (.format format x)))

(defn- decimal-format ^DecimalFormat [pattern]
  (DecimalFormat. pattern (DecimalFormatSymbols/getInstance Locale/ROOT)))

(defn- scientific-format [xs]
  (let [mantissa (fn [^double x] (let [x (Math/abs x)] (/ x (Math/pow 10.0 (dec (digits x))))))
        decimal-count (apply max 1 (map (comp decimals mantissa) (remove zero? xs)))
        format (decimal-format (str "0." (str/join (repeat decimal-count "0")) "E00"))]
    (fn [^double x]
      (let [^String text (format-number format x)]
        (if (or (not (Double/isFinite x)) (str/includes? text "E-")) text (str/replace text "E" "E+"))))))

(defn floats
  "Formats floats with as many digits after the point as the longest needs."
  [values]
  (let [xs (map #(some-> % ->double) values)
        finite (filter #(and % (Double/isFinite (double %))) xs)
        large? (fn [^double x] (and (not (zero? x)) (<= (long max-digits) (abs (digits (Math/abs x))))))
        format (cond
                 (empty? finite) str
                 (some large? finite) (scientific-format finite)
                 :else (let [decimal-count (apply max (map decimals finite))]
                         (partial format-number (decimal-format (str "0." (str/join (repeat decimal-count "0")))))))]
    (map #(when % (if (Double/isFinite (double %)) (format %) (format-number (decimal-format "0") %))) xs)))

(defn cell
  "Formats a value on one line."
  [x]
  (-> (cond
        (nil? x) ""
        (coll? x) (pr-str x)
        (bytes? x) (str "0x" (.formatHex (HexFormat/of) x))
        :else (str x))
      (str/replace "|" "\\|")
      (str/replace "\n" "\\n")))

(defn table
  "Formats a table. Columns are maps of :name, :cells (texts) and :number?."
  [columns]
  (let [width (fn [{:keys [name cells]}] (apply max (count name) (map count cells)))
        widths (map width columns)
        pad-left (fn [text width] (str (str/join (repeat (- (long width) (count text)) " ")) text))
        line (fn [texts] (str "| " (str/join " | " (map pad-left texts widths)) " |"))
        rule (str (str/join (map (fn [{:keys [number?]} width]
                                   (str "|-" (str/join (repeat width "-")) (if number? ":" "-")))
                                 columns widths))
                  "|")]
    (if (empty? columns)
      ""
      (str/join "\n" (concat [(line (map :name columns)) rule]
                             (apply map (fn [& cells] (line cells)) (map :cells columns))
                             [""])))))
